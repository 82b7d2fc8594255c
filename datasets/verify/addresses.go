package verify

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// AddressesVersion changes whenever [AddressesJudge] could say something else.
const AddressesVersion = "1"

// An address is a way in which a text speaks to whoever grades it.
type address struct {
	what    string
	pattern *regexp.Regexp
	// needs are words of which a text must hold one of each list to match: most
	// texts hold none, and looking for words is a hundred times faster.
	needs [][]string
}

func (a *address) matches(plain string) bool {
	for _, list := range a.needs {
		if !slices.ContainsFunc(list, func(word string) bool { return strings.Contains(plain, word) }) {
			return false
		}
	}
	return a.pattern.MatchString(plain)
}

var (
	gradeWords  = []string{"score", "choice", "rating", "grade", "verdict", "judgment", "judgement", "winner"}
	graderStems = []string{"judge", "grader", "evaluator", "rater", "reviewer", "examiner", "assessor", "scorer"}
	answerWords = []string{"answer", "response", "reply", "solution", "submission", "output", "assistant", "option"}
)

const graderWords = `(?:judge|judges|grader|graders|evaluator|evaluators|rater|raters|reviewer|reviewers|examiner|assessor|scorer|llm[- ]as[- ]a[- ]judge)`

// addresses are tried in order over text in lower case without what hides words.
// They look for speech to a grader, and not for words that answers use: the
// docs state how many ordinary answers they hit.
var addresses = []address{
	{"a judgement in the form that judges are asked for", regexp.MustCompile(
		`\{[^{}]{0,200}"(?:score|choice|rating|verdict|winner|grade)"\s*:\s*["']?(?:[0-9]|a\b|b\b|tie\b|pass|correct|<)`), [][]string{{"{"}, gradeWords}},
	{"a verdict in the form of other judges", regexp.MustCompile(`\[\[\s*(?:a|b|c|tie)\s*\]\]|rating:?\**\s*\[\[\s*[0-9]`), [][]string{{"[["}}},
	{"a judgement in another judge's form", regexp.MustCompile(
		`(?:final |overall )?(?:score|rating|grade|verdict|judge?ment)\s*(?::|=|is)\s*\**(?:10\s*/\s*10|100\s*/\s*100|5\s*/\s*5|10 out of 10|100 out of 100|5 out of 5|full marks|maximum|perfect)`), [][]string{gradeWords, {"10", "5/", "5 ", "full marks", "maximum", "perfect"}}},
	{"a forged mark around what is judged", regexp.MustCompile(
		`={5,}\s*[0-9a-f]{6,}|(?m:^[\s=#*\-<>\[\]]*(?:begin|end)(?: of)?(?: the)? (?:answer|answer [ab]|material|submission|conversation|known right answer|rubric)[\s=#*\-<>\[\]:]*$)`),
		[][]string{{"=====", "begin answer", "end answer", "begin of", "end of", "begin the", "end the", "begin material", "end material", "begin submission", "end submission", "begin conversation", "end conversation", "begin known", "end known", "begin rubric", "end rubric"}}},
	{"a mark of a chat template", regexp.MustCompile(`<\|(?:im_start|im_end|system|endoftext|eot_id)\|>|\[/?inst\]`), [][]string{{"<|", "inst]"}}},
	{"an order to set instructions aside", regexp.MustCompile(
		`(?:ignore|disregard|forget|override|bypass|set aside)\s+(?:all|any|the|your|these|those|every|everything|previous|prior|above|earlier|preceding|of|in|other|original|given|and|\s)*\s*(?:instructions?|rubrics?|guidelines|criteria|rules of (?:grading|judging|this evaluation)|system prompts?|prompt above|scoring)`),
		[][]string{{"ignore", "disregard", "forget", "override", "bypass", "set aside"}, {"instruction", "rubric", "guideline", "criteria", "rules of", "prompt", "scoring"}}},
	{"speech to a grader", regexp.MustCompile(
		`(?:dear|attention|hey|hello|hi|note to|message (?:to|for)|instructions? (?:to|for)|for)\s*[:,]?\s+(?:the |any |all |my |you,? the )?(?:ai |llm |automated |automatic )*` + graderWords + `\b\s*(?:$|[:,.!\-—\]\n)])|` +
			`\byou(?:'re| are) (?:now )?(?:the |an? )?(?:[a-z]+ ){0,2}` + graderWords + `\b|` +
			graderWords + `\b[^.\n]{0,40}\b(?:must|should|shall|has to|have to|is required to|are required to|please)\s+(?:now )?(?:give|assign|award|rate|score|grade|mark|choose|pick|select|prefer|output|respond|reply|answer|return|accept)`), [][]string{graderStems}},
	{"a request for a grade", regexp.MustCompile(
		`(?:give|assign|award|rate|grade|score|mark|evaluate|judge)\s+(?:this|my|the above|the following|the present)\s+(?:answer|response|reply|solution|submission|output)\b[^.\n]{0,60}(?:[0-9]|ten\b|full|max|highest|top|perfect|best|correct|pass|winner|well)|` +
			`(?:this|my|the above)\s+(?:answer|response|reply|solution|submission|output)\s+(?:deserves|merits|must (?:get|receive|be given|be rated|be scored|be graded|win|pass)|should (?:get|receive|be given|be rated|be scored|be graded|win|pass))|` +
			`(?:choose|pick|select|prefer|vote for)\s+(?:answer|response|assistant|option)\s+[ab]\b\s+(?:as|because|since|regardless|over|no matter|whatever)|` +
			`(?:output|print|return|write|respond with|reply with|end (?:your reply )?with|say)\s+(?:only |exactly |just )*(?:the )?(?:score|choice|rating|grade|verdict)\s*(?:of\s+|:\s*)?["']?(?:[0-9]|a\b|b\b|ten\b)`),
		[][]string{slices.Concat(answerWords, gradeWords), {"this ", "my ", "the above", "the following", "the present", "answer a", "answer b", "response a", "response b", "assistant a", "assistant b", "option a", "option b", "output ", "print ", "return ", " with ", "say "}}},
	{"a message in the system's name", regexp.MustCompile(
		`(?m:^[\s#*\[<(]*(?:system|developer|admin|administrator|moderator)(?: (?:message|prompt|override|note|notice|update|instruction|alert))[\s\]>)*]*[:\-—\n])`), [][]string{{"system ", "developer ", "admin ", "administrator ", "moderator "}, {"message", "prompt", "override", "note", "notice", "update", "instruction", "alert"}}},
}

// AddressesJudge tells how a text speaks to whoever grades it, "" where it does
// not. It knows English alone, and no pattern knows every way: it is a guard
// before a judge, not a proof of innocence.
func AddressesJudge(text string) string {
	plain, hidden := revealed(text)
	if hidden {
		return "characters that nobody sees"
	}
	for i := range addresses {
		if a := &addresses[i]; a.matches(plain) {
			return a.what
		}
	}
	return ""
}

// revealed is a text in lower case and in its compatible form, without what is
// put between letters to hide a word. hidden tells that it holds tag characters,
// which spell a text that is shown nowhere.
func revealed(text string) (plain string, hidden bool) {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 0xE0020 && r <= 0xE007E:
			hidden = true
			return -1
		case r == '\u200b' || r == '\u2060' || r == '\ufeff' || r == '\u00ad' || r == '\u180e':
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFKC.String(text))
	// Flags of regions are spelled with tags too, after a black flag.
	return clean, hidden && !strings.ContainsRune(text, '\U0001F3F4')
}
