package demo

import (
	"fmt"
	"strconv"
	"strings"
)

var mathMakers = []maker{
	cratesLeft, tripTime, salePrice, sharedBill, averageScore, fencePosts, agesTogether,
	partsMade, tankLevel, simpleInterest, paintRatio, busPassengers,
}

// word is a word problem whose answer is a number.
func word(question, gold, answer string, steps ...string) problem {
	return problem{question: question, gold: gold, answer: answer, steps: steps}
}

func whole(question string, answer int, steps ...string) problem {
	n := strconv.Itoa(answer)
	return word(question, n, n, steps...)
}

var wares = []string{"apples", "light bulbs", "tennis balls", "notebooks", "candles", "seed packets", "mugs", "batteries"}

func cratesLeft(d *dice) problem {
	crates, each, ware := d.between(4, 24), d.between(6, 48), pick(d, wares)
	sold := d.between(5, crates*each-1)
	total := crates * each
	p := whole(fmt.Sprintf("A shop receives %d crates with %d %s in each crate. During the week it sells %d of the %s. How many %s are left?",
		crates, each, ware, sold, ware, ware), total-sold,
		fmt.Sprintf("The crates hold %d × %d = %d %s.", crates, each, total, ware),
		fmt.Sprintf("After selling %d, there are %d − %d = %d left.", sold, total, sold, total-sold))
	p.addSlip(strconv.Itoa(total), fmt.Sprintf("So there are %d %s.", total, ware))
	p.addSlip(strconv.Itoa(total+sold), fmt.Sprintf("Together with the %d that makes %d.", sold, total+sold))
	p.addSlip(strconv.Itoa(total-sold+10), fmt.Sprintf("After selling %d, there are %d left.", sold, total-sold+10))
	return p
}

func tripTime(d *dice) problem {
	name, speed, quarters := pick(d, names), 4*d.between(3, 20), d.between(2, 14)
	pause := 5 * d.between(1, 9)
	distance := speed * quarters / 4
	minutes := 15 * quarters
	p := whole(fmt.Sprintf("%s drives %d km at a steady %d km/h and then rests for %d minutes. How many minutes pass from the start to the end of the rest?",
		name, distance, speed, pause), minutes+pause,
		fmt.Sprintf("Driving %d km at %d km/h takes %d/%d of an hour, which is %d minutes.", distance, speed, distance, speed, minutes),
		fmt.Sprintf("With the rest that is %d + %d = %d minutes.", minutes, pause, minutes+pause))
	p.addSlip(strconv.Itoa(minutes), fmt.Sprintf("So it takes %d minutes.", minutes))
	p.addSlip(strconv.Itoa(distance+pause), fmt.Sprintf("That gives %d + %d = %d.", distance, pause, distance+pause))
	return p
}

func salePrice(d *dice) problem {
	thing := pick(d, []string{"coat", "bicycle helmet", "desk lamp", "pair of boots", "rucksack", "radio"})
	price, percent := 5*d.between(4, 60), 5*d.between(1, 12)
	cents := price * (100 - percent)
	p := word(fmt.Sprintf("A %s costs $%d. In the sale its price is reduced by %d%%. What does the %s cost in the sale, in dollars?", thing, price, percent, thing),
		decimal(cents), dollars(cents),
		fmt.Sprintf("The reduction is %d%% of $%d, which is %s.", percent, price, dollars(price*percent)),
		fmt.Sprintf("The sale price is $%d − %s = %s.", price, dollars(price*percent), dollars(cents)))
	p.addSlip(dollars(price*percent), fmt.Sprintf("So it costs %s.", dollars(price*percent)))
	p.addSlip(dollars(price*(100+percent)), fmt.Sprintf("So the price becomes %s.", dollars(price*(100+percent))))
	if price > percent {
		p.addSlip(dollars(100*(price-percent)), fmt.Sprintf("Taking off %d leaves %s.", percent, dollars(100*(price-percent))))
	}
	return p
}

func sharedBill(d *dice) problem {
	friends, each := d.between(3, 8), 50*d.between(10, 60)
	tip := friends * 25 * d.between(1, 8)
	bill := friends*each - tip
	p := word(fmt.Sprintf("%d friends share a restaurant bill of %s and add a tip of %s. Each pays the same. How many dollars does each of them pay?", friends, dollars(bill), dollars(tip)),
		decimal(each), dollars(each),
		fmt.Sprintf("Together they pay %s + %s = %s.", dollars(bill), dollars(tip), dollars(bill+tip)),
		fmt.Sprintf("Divided by %d, each pays %s.", friends, dollars(each)))
	p.addSlip(dollars(bill/friends), fmt.Sprintf("Divided by %d, each pays about %s.", friends, dollars(bill/friends)))
	p.addSlip(dollars((bill+tip)/(friends-1)), fmt.Sprintf("Shared out, that is about %s each.", dollars((bill+tip)/(friends-1))))
	return p
}

func averageScore(d *dice) problem {
	name := pick(d, names)
	scores := []int{d.between(40, 100), d.between(40, 100), d.between(40, 100), d.between(40, 100)}
	sum := scores[0] + scores[1] + scores[2] + scores[3]
	list := fmt.Sprintf("%d, %d, %d and %d", scores[0], scores[1], scores[2], scores[3])
	p := word(fmt.Sprintf("%s scores %s points in four tests. What is the average score?", name, list),
		decimal(sum*25), decimal(sum*25),
		fmt.Sprintf("The scores add up to %d.", sum),
		fmt.Sprintf("The average is %d ÷ 4 = %s.", sum, decimal(sum*25)))
	p.addSlip(strconv.Itoa(sum), fmt.Sprintf("So the score is %d.", sum))
	p.addSlip(decimal((sum-scores[3])*25), fmt.Sprintf("The average is %s.", decimal((sum-scores[3])*25)))
	return p
}

func fencePosts(d *dice) problem {
	gap := d.between(2, 5)
	long, wide := gap*d.between(4, 20), gap*d.between(2, 12)
	around := 2 * (long + wide)
	p := whole(fmt.Sprintf("A rectangular garden is %d m long and %d m wide. A fence goes all the way round it with a post every %d m, one at each corner included. How many posts are needed?", long, wide, gap),
		around/gap,
		fmt.Sprintf("The fence is 2 × (%d + %d) = %d m long.", long, wide, around),
		fmt.Sprintf("It closes on itself, so it has %d ÷ %d = %d posts.", around, gap, around/gap))
	p.addSlip(strconv.Itoa(around/gap+1), fmt.Sprintf("With one more for the end that makes %d posts.", around/gap+1))
	p.addSlip(strconv.Itoa((long+wide)/gap), fmt.Sprintf("That takes %d posts.", (long+wide)/gap))
	return p
}

func agesTogether(d *dice) problem {
	a, b := pick(d, names[:10]), pick(d, names[10:])
	young, older, years := d.between(5, 30), d.between(2, 25), d.between(3, 12)
	sum := 2*young + older + 2*years
	p := whole(fmt.Sprintf("%s is %d years old. %s is %d years older. How old will the two be together in %d years?", a, young, b, older, years),
		sum,
		fmt.Sprintf("%s is %d + %d = %d years old now.", b, young, older, young+older),
		fmt.Sprintf("In %d years they are %d and %d.", years, young+years, young+older+years),
		fmt.Sprintf("Together that is %d.", sum))
	p.addSlip(strconv.Itoa(sum-years), fmt.Sprintf("Together, %d years later, that is %d.", years, sum-years))
	p.addSlip(strconv.Itoa(sum-2*years), fmt.Sprintf("Together that is %d.", sum-2*years))
	return p
}

func partsMade(d *dice) problem {
	rate, hours, minutes, bad := d.between(3, 18), d.between(1, 6), 5*d.between(1, 11), d.between(2, 40)
	made := rate * (60*hours + minutes)
	p := whole(fmt.Sprintf("A machine makes %d parts a minute and runs for %d hours and %d minutes. %d of the parts are faulty. How many good parts does it make?", rate, hours, minutes, bad),
		made-bad,
		fmt.Sprintf("It runs for %d × 60 + %d = %d minutes.", hours, minutes, 60*hours+minutes),
		fmt.Sprintf("It makes %d × %d = %d parts.", rate, 60*hours+minutes, made),
		fmt.Sprintf("Without the faulty ones that is %d − %d = %d.", made, bad, made-bad))
	p.addSlip(strconv.Itoa(made), fmt.Sprintf("So it makes %d.", made))
	p.addSlip(strconv.Itoa(rate*(100*hours+minutes)-bad), fmt.Sprintf("Without the faulty ones that is %d.", rate*(100*hours+minutes)-bad))
	return p
}

func tankLevel(d *dice) problem {
	parts := d.between(3, 9)
	full, size := d.between(1, parts-1), parts*10*d.between(3, 30)
	now := size / parts * full
	used := d.between(5, now-1)
	p := whole(fmt.Sprintf("A tank that holds %d litres is %d/%d full. Then %d litres are used. How many litres are left in the tank?", size, full, parts, used),
		now-used,
		fmt.Sprintf("At first it holds %d ÷ %d × %d = %d litres.", size, parts, full, now),
		fmt.Sprintf("Then %d − %d = %d litres are left.", now, used, now-used))
	p.addSlip(strconv.Itoa(size-used), fmt.Sprintf("Then %d − %d = %d litres are left.", size, used, size-used))
	p.addSlip(strconv.Itoa(now), fmt.Sprintf("So it holds %d litres.", now))
	return p
}

func simpleInterest(d *dice) problem {
	name, amount, rate, years := pick(d, names), 100*d.between(5, 80), d.between(2, 9), d.between(2, 8)
	interest := amount * rate * years // in cents
	p := word(fmt.Sprintf("%s puts $%d into an account that pays %d%% simple interest a year. How many dollars of interest are paid in %d years?", name, amount, rate, years),
		decimal(interest), dollars(interest),
		fmt.Sprintf("One year pays %d%% of $%d, which is %s.", rate, amount, dollars(amount*rate)),
		fmt.Sprintf("In %d years that is %d × %s = %s.", years, years, dollars(amount*rate), dollars(interest)))
	p.addSlip(dollars(amount*rate), fmt.Sprintf("So the interest is %s.", dollars(amount*rate)))
	p.addSlip(dollars(100*amount+interest), fmt.Sprintf("So it comes to %s.", dollars(100*amount+interest)))
	return p
}

func paintRatio(d *dice) problem {
	colours := []string{"blue", "yellow", "white", "red", "green"}
	shuffle(d, colours)
	a, b, unit := d.between(2, 7), d.between(2, 7), d.between(2, 15)
	if a == b {
		b++
	}
	total := (a + b) * unit
	p := whole(fmt.Sprintf("A painter mixes %s and %s paint in the ratio %d to %d and makes %d litres. How many litres of %s paint does that take?", colours[0], colours[1], a, b, total, colours[0]),
		a*unit,
		fmt.Sprintf("The mix has %d + %d = %d parts, so one part is %d ÷ %d = %d litres.", a, b, a+b, total, a+b, unit),
		fmt.Sprintf("The %s paint is %d × %d = %d litres.", colours[0], a, unit, a*unit))
	p.addSlip(strconv.Itoa(b*unit), fmt.Sprintf("That takes %d × %d = %d litres.", b, unit, b*unit))
	p.addSlip(strconv.Itoa(unit), fmt.Sprintf("So it takes %d litres.", unit))
	return p
}

func busPassengers(d *dice) problem {
	now := d.between(10, 40)
	start := now
	var stops, steps []string
	for _, stop := range []string{"first", "second", "third"} {
		off, on := d.between(1, now), d.between(1, 18)
		now += on - off
		stops = append(stops, fmt.Sprintf("at the %s stop %d get off and %d get on", stop, off, on))
		steps = append(steps, fmt.Sprintf("After the %s stop there are %d.", stop, now))
	}
	p := whole(fmt.Sprintf("A bus sets off with %d passengers: %s. How many passengers are on the bus then?", start, strings.Join(stops, ", ")), now, steps...)
	p.addSlip(strconv.Itoa(now+1), fmt.Sprintf("So %d are on the bus.", now+1))
	if now != start {
		p.addSlip(strconv.Itoa(start), fmt.Sprintf("What gets on and off evens out, so %d are on the bus.", start))
	}
	return p
}
