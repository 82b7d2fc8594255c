package demo

import (
	"fmt"
	"strings"
)

var scienceMakers = []maker{
	forceOf, meanSpeed, densityOf, voltageOf, kineticEnergy, halfLives, wavelengthOf,
	pressureOf, heatOf, elementByNumber, elementBySymbol, planetOrder,
}

// choice lays four options out in an order of the dice. The first is right.
func choice(d *dice, question string, options [4]string, steps ...string) problem {
	order := []int{0, 1, 2, 3}
	shuffle(d, order)
	p := problem{steps: steps}
	var text strings.Builder
	text.WriteString(question)
	letters := [4]string{}
	for place, option := range order {
		letter := string(rune('A' + place))
		letters[option] = letter
		fmt.Fprintf(&text, "\n%s) %s", letter, options[option])
	}
	p.question, p.gold, p.answer = text.String(), letters[0], letters[0]
	for wrong := 1; wrong < 4; wrong++ {
		if options[wrong] != options[0] {
			p.addSlip(letters[wrong], fmt.Sprintf("That gives %s.", options[wrong]))
		}
	}
	return p
}

// measures are four different amounts of one unit, the first right; where two
// of the wrong ones fall together, they are moved apart.
func measures(unit string, right int, wrong ...int) [4]string {
	values := [4]int{right, wrong[0], wrong[1], wrong[2]}
	for i := 1; i < 4; i++ {
		for j := 0; j < i; j++ {
			if values[i] == values[j] || values[i] <= 0 {
				values[i] = values[0] + values[i] + 7*i
				j = -1
			}
		}
	}
	var options [4]string
	for i, v := range values {
		options[i] = fmt.Sprintf("%d %s", v, unit)
	}
	return options
}

func forceOf(d *dice) problem {
	mass, acceleration := d.between(2, 60), d.between(2, 15)
	return choice(d, fmt.Sprintf("A body of %d kg is accelerated at %d m/s². Which net force acts on it?", mass, acceleration),
		measures("N", mass*acceleration, mass+acceleration, mass*acceleration*10, mass*acceleration/2+1),
		"Newton's second law says F = m·a.",
		fmt.Sprintf("F = %d kg × %d m/s² = %d N.", mass, acceleration, mass*acceleration))
}

func meanSpeed(d *dice) problem {
	speed, seconds := d.between(3, 40), d.between(4, 60)
	return choice(d, fmt.Sprintf("A runner of a relay covers %d m in %d s. What is the mean speed?", speed*seconds, seconds),
		measures("m/s", speed, speed*2, seconds, speed+seconds),
		"Speed is distance over time.",
		fmt.Sprintf("%d m ÷ %d s = %d m/s.", speed*seconds, seconds, speed))
}

func densityOf(d *dice) problem {
	density, volume := d.between(2, 21), d.between(3, 50)
	return choice(d, fmt.Sprintf("A metal block of %d cm³ has a mass of %d g. What is its density?", volume, density*volume),
		measures("g/cm³", density, density+2, density*volume-volume, volume),
		"Density is mass over volume.",
		fmt.Sprintf("%d g ÷ %d cm³ = %d g/cm³.", density*volume, volume, density))
}

func voltageOf(d *dice) problem {
	current, resistance := d.between(2, 12), d.between(3, 80)
	return choice(d, fmt.Sprintf("A current of %d A flows through a resistor of %d Ω. Which voltage lies across it?", current, resistance),
		measures("V", current*resistance, current+resistance, resistance/current+1, current*current*resistance),
		"Ohm's law says U = R·I.",
		fmt.Sprintf("U = %d Ω × %d A = %d V.", resistance, current, current*resistance))
}

func kineticEnergy(d *dice) problem {
	mass, speed := 2*d.between(1, 30), d.between(2, 20)
	right := mass / 2 * speed * speed
	return choice(d, fmt.Sprintf("What is the kinetic energy of a cart of %d kg that rolls at %d m/s?", mass, speed),
		measures("J", right, 2*right, mass*speed, mass*speed/2),
		"Kinetic energy is half the mass times the speed squared.",
		fmt.Sprintf("½ × %d kg × (%d m/s)² = %d J.", mass, speed, right))
}

func halfLives(d *dice) problem {
	half, times := d.between(2, 30), d.between(2, 5)
	rest := d.between(2, 30)
	start := rest << times
	return choice(d, fmt.Sprintf("A sample holds %d mg of a nuclide with a half-life of %d days. How much of it is left after %d days?", start, half, half*times),
		measures("mg", rest, start/times, rest*2, start-rest),
		fmt.Sprintf("%d days are %d half-lives.", half*times, times),
		fmt.Sprintf("Halving %d mg %d times leaves %d mg.", start, times, rest))
}

func wavelengthOf(d *dice) problem {
	frequency, length := 10*d.between(2, 50), d.between(2, 12)
	return choice(d, fmt.Sprintf("A wave of %d Hz travels at %d m/s. What is its wavelength?", frequency, frequency*length),
		measures("m", length, length*2, frequency, length+3),
		"Wavelength is speed over frequency.",
		fmt.Sprintf("%d m/s ÷ %d Hz = %d m.", frequency*length, frequency, length))
}

func pressureOf(d *dice) problem {
	area, pressure := d.between(2, 20), 10*d.between(2, 60)
	return choice(d, fmt.Sprintf("A force of %d N presses evenly on %d m². Which pressure is that?", area*pressure, area),
		measures("Pa", pressure, area*pressure*area, pressure*10, pressure+area),
		"Pressure is force over area.",
		fmt.Sprintf("%d N ÷ %d m² = %d Pa.", area*pressure, area, pressure))
}

func heatOf(d *dice) problem {
	mass, rise := 10*d.between(2, 40), 5*d.between(1, 14)
	right := mass * rise * 42 / 10
	return choice(d, fmt.Sprintf("How much heat warms %d g of water by %d K? Take 4.2 J/(g·K) as its specific heat.", mass, rise),
		measures("J", right, mass*rise, right/10, mass+rise),
		"The heat is mass times specific heat times the rise in temperature.",
		fmt.Sprintf("%d g × 4.2 J/(g·K) × %d K = %d J.", mass, rise, right))
}

// elements are name and symbol by atomic number, from 1.
var elements = [][2]string{
	{"hydrogen", "H"}, {"helium", "He"}, {"lithium", "Li"}, {"beryllium", "Be"}, {"boron", "B"}, {"carbon", "C"},
	{"nitrogen", "N"}, {"oxygen", "O"}, {"fluorine", "F"}, {"neon", "Ne"}, {"sodium", "Na"}, {"magnesium", "Mg"},
	{"aluminium", "Al"}, {"silicon", "Si"}, {"phosphorus", "P"}, {"sulfur", "S"}, {"chlorine", "Cl"}, {"argon", "Ar"},
	{"potassium", "K"}, {"calcium", "Ca"}, {"scandium", "Sc"}, {"titanium", "Ti"}, {"vanadium", "V"}, {"chromium", "Cr"},
	{"manganese", "Mn"}, {"iron", "Fe"}, {"cobalt", "Co"}, {"nickel", "Ni"}, {"copper", "Cu"}, {"zinc", "Zn"},
	{"gallium", "Ga"}, {"germanium", "Ge"}, {"arsenic", "As"}, {"selenium", "Se"}, {"bromine", "Br"}, {"krypton", "Kr"},
}

// fourElements are different indexes into elements.
func fourElements(d *dice) [4]int {
	var found [4]int
	for i := range found {
		for again := true; again; {
			found[i], again = d.between(0, len(elements)-1), false
			for _, f := range found[:i] {
				again = again || f == found[i]
			}
		}
	}
	return found
}

func elementByNumber(d *dice) problem {
	four := fourElements(d)
	var options [4]string
	for i, e := range four {
		options[i] = elements[e][0]
	}
	return choice(d, fmt.Sprintf("Which element has the atomic number %d?", four[0]+1), options,
		"The atomic number counts the protons in the nucleus.",
		fmt.Sprintf("A nucleus with %d protons is %s.", four[0]+1, options[0]))
}

func elementBySymbol(d *dice) problem {
	four := fourElements(d)
	var options [4]string
	for i, e := range four {
		options[i] = elements[e][1]
	}
	return choice(d, fmt.Sprintf("What is the chemical symbol of %s?", elements[four[0]][0]), options,
		fmt.Sprintf("%s is element number %d.", strings.ToUpper(elements[four[0]][0][:1])+elements[four[0]][0][1:], four[0]+1),
		fmt.Sprintf("Its symbol is %s.", options[0]))
}

var planets = []string{"Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune"}

func planetOrder(d *dice) problem {
	at := d.between(0, len(planets)-2)
	wrong := append(append([]string{}, planets[:at]...), planets[at+2:]...)
	shuffle(d, wrong)
	return choice(d, fmt.Sprintf("Which planet is the next one beyond %s, counted from the Sun?", planets[at]),
		[4]string{planets[at+1], wrong[0], wrong[1], wrong[2]},
		"From the Sun the planets are Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus and Neptune.",
		fmt.Sprintf("After %s comes %s.", planets[at], planets[at+1]))
}
