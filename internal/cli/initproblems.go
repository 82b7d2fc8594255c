package cli

// A problem is one of the prompts that init writes, with its gold answer and
// two answers that were written for it.
type problem struct {
	question, gold string
	careful        string // a right answer
	hasty          string // a short one, right or wrong
}

// A recordedLine is a line of a starter's recorded answers.
type recordedLine struct {
	Question string `json:"question"`
	Answer   string `json:"answer"`
	Model    string `json:"model"`
}

// recorded is the answer that a file of recorded answers holds.
func (p problem) recorded(file string) recordedLine {
	if file == "hasty.jsonl" {
		return recordedLine{p.question, p.hasty, "simulated-hasty"}
	}
	model := "simulated-careful"
	if file == "answers.jsonl" {
		model = "example"
	}
	return recordedLine{p.question, p.careful, model}
}

// starterProblems are word problems in the manner of grade-school maths.
var starterProblems = []problem{
	{
		question: "A bakery sells rolls in bags of 6. On Monday it filled 14 bags and had 5 rolls left over. How many rolls did it bake?",
		gold:     "89",
		careful:  "Fourteen bags of 6 rolls are 14 × 6 = 84 rolls. With the 5 left over that is 84 + 5 = 89.\nAnswer: 89",
		hasty:    "14 × 6 = 84.\nAnswer: 84",
	},
	{
		question: "Nora reads 18 pages on each weekday and 35 pages on each day of the weekend. How many pages does she read in 4 weeks?",
		gold:     "640",
		careful:  "A week has 5 weekdays, 5 × 18 = 90 pages, and 2 weekend days, 2 × 35 = 70 pages: 160 pages. Four weeks are 4 × 160 = 640 pages.\nAnswer: 640",
		hasty:    "(5 × 18 + 2 × 35) × 4 = 640.\nAnswer: 640",
	},
	{
		question: "A tank holds 240 litres. A pump fills 15 litres a minute while a leak loses 3 litres a minute. How many minutes does it take to fill the empty tank?",
		gold:     "20",
		careful:  "Each minute the tank gains 15 - 3 = 12 litres, and 240 / 12 = 20.\nAnswer: 20",
		hasty:    "240 / 15 = 16.\nAnswer: 16",
	},
	{
		question: "A coat costs $80. Its price is first raised by 25% and then lowered by 10%. What does it cost in dollars now?",
		gold:     "90",
		careful:  "Raised by 25% the coat costs 80 × 1.25 = 100 dollars. Lowered by 10% that is 100 × 0.9 = 90 dollars.\nAnswer: $90",
		hasty:    "25% - 10% = 15%, and 80 × 1.15 = 92.\nAnswer: $92",
	},
	{
		question: "Three friends share the cost of a tent equally. With a fourth friend each would pay $12 less. What does the tent cost in dollars?",
		gold:     "144",
		careful:  "Let the tent cost c. Then c/3 - c/4 = 12, so c/12 = 12 and c = 144.\nAnswer: 144",
		hasty:    "c/3 - c/4 = c/12 = 12, so c = 144.\nAnswer: 144",
	},
	{
		question: "A train leaves at 09:40 and arrives at 13:05. It stood still for 25 minutes in all. For how many minutes did it move?",
		gold:     "180",
		careful:  "From 09:40 to 13:05 are 3 hours and 25 minutes, which is 205 minutes. Without the stops that is 205 - 25 = 180 minutes.\nAnswer: 180",
		hasty:    "09:40 to 13:05 is 205 minutes; 205 - 25 = 180.\nAnswer: 180",
	},
	{
		question: "In a class of 30 pupils, two fifths play chess. Half of those who play chess also sing. How many pupils play chess and do not sing?",
		gold:     "6",
		careful:  "Two fifths of 30 are 12 pupils. Half of them sing, so 12 - 6 = 6 do not.\nAnswer: 6",
		hasty:    "2/5 of 30 is 12.\nAnswer: 12",
	},
	{
		question: "A square garden has a fence of 52 metres around it. What is its area in square metres?",
		gold:     "169",
		careful:  "Each of the four sides is 52 / 4 = 13 metres, and 13 × 13 = 169.\nAnswer: 169",
		hasty:    "Sides of 13 m; 13² = 169.\nAnswer: 169",
	},
}
