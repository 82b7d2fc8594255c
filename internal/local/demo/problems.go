package demo

import (
	"fmt"
	"strings"
	"sync"
)

// perDomain is how many prompts each domain has.
const perDomain = 120

// problem is a generated prompt with all that a teacher needs to answer it,
// rightly or with a slip that people make.
type problem struct {
	domain   string
	question string
	gold     string // math: the number; science: the letter
	kind     string // structured: pattern or schema
	tests    any    // structured: a regular expression, or a JSON schema
	answer   string // what a right answer states
	steps    []string
	slips    []slip
}

// slip is a plausible wrong answer.
type slip struct {
	answer string
	why    string // the step that goes wrong, told as if it were right
}

// addSlip keeps a wrong answer that is really wrong and new.
func (p *problem) addSlip(answer, why string) {
	if answer == p.answer {
		return
	}
	for _, s := range p.slips {
		if s.answer == answer {
			return
		}
	}
	p.slips = append(p.slips, slip{answer, why})
}

// A maker makes one problem from dice.
type maker func(d *dice) problem

// problems are all prompts of the demo, the same in every run.
var problems = sync.OnceValue(func() map[string][]problem {
	return map[string][]problem{
		Math:       generate(Math, mathMakers),
		Science:    generate(Science, scienceMakers),
		Structured: generate(Structured, structuredMakers),
	}
})

// byQuestion finds a problem by the text that a teacher is asked.
var byQuestion = sync.OnceValue(func() map[string]*problem {
	found := map[string]*problem{}
	for _, list := range problems() {
		for i := range list {
			found[list[i].question] = &list[i]
		}
	}
	return found
})

// generate makes a domain's problems, each maker in turn, no question twice.
func generate(domain string, makers []maker) []problem {
	d := diceOf("stillhouse demo", domain)
	seen := map[string]bool{}
	var made []problem
	for turn := 0; len(made) < perDomain; turn++ {
		p := makers[turn%len(makers)](&d)
		if seen[p.question] || len(p.slips) == 0 {
			continue
		}
		seen[p.question] = true
		p.domain = domain
		made = append(made, p)
	}
	return made
}

var names = []string{
	"Amara", "Bruno", "Chen", "Dalia", "Emeka", "Farid", "Greta", "Hana", "Ivo", "Jun",
	"Kofi", "Lucia", "Mina", "Nadia", "Omar", "Petra", "Quentin", "Rosa", "Sven", "Tomoko",
}

// decimal writes hundredths as a number without needless zeros: 1250 is 12.5.
func decimal(hundredths int) string {
	sign := ""
	if hundredths < 0 {
		sign, hundredths = "-", -hundredths
	}
	s := fmt.Sprintf("%s%d.%02d", sign, hundredths/100, hundredths%100)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// dollars writes cents as an amount: 1250 is $12.50, 1200 is $12.
func dollars(cents int) string {
	if cents%100 == 0 {
		return fmt.Sprintf("$%d", cents/100)
	}
	return fmt.Sprintf("$%d.%02d", cents/100, cents%100)
}
