package filter

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
)

// ReasonRefusal is the reason of the refusal filter.
const ReasonRefusal = "refusal"

const (
	// refusalHead is how many characters of an answer are looked at: a refusal
	// says so at once.
	refusalHead = 200
	// An answer that declines one thing and then gives another in its place is
	// no refusal if it goes on for this many characters.
	hedgeLength = 600
)

// refusal keeps answers that do not decline. It reads the beginning of the
// answer alone, never the reasoning, in which a model may well consider to
// decline and then help.
type refusal struct{ hedged bool }

func newRefusal(o *options.Set) Filter { return refusal{hedged: o.Bool("hedged", false)} }

func (refusal) Name() string    { return "refusal" }
func (refusal) Version() string { return "1" }

func (f refusal) Reject(in *Input) string {
	content := in.Candidate.Content()
	begin := strings.TrimLeftFunc(head(content, 2*refusalHead), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	begin = folded(head(begin, refusalHead))
	if begin == "" || !declines(begin) {
		return ""
	}
	if !f.hedged && helpsAfterAll(content) {
		return ""
	}
	return ReasonRefusal
}

// declines tells whether the folded beginning of an answer is a refusal.
func declines(begin string) bool {
	for _, p := range refusals {
		if p.first != "" && !strings.ContainsRune(p.first, firstRune(begin)) {
			continue
		}
		if p.pattern.MatchString(begin) {
			return true
		}
	}
	return false
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// helpsAfterAll tells whether an answer that begins by declining turns around
// and goes on for long enough to be of use.
func helpsAfterAll(content string) bool {
	if utf8.RuneCountInString(content) < hedgeLength {
		return false
	}
	turn := folded(head(content, 3*refusalHead))
	for _, word := range turns {
		if strings.Contains(turn, word) {
			return true
		}
	}
	return false
}

// turns are the words by which an answer passes from what it declines to what
// it gives.
var turns = []string{
	"however", "but i can", "but i could", "but here", "instead", "that said", "having said", "nevertheless", "with that in mind", "here's", "here is", "here are", "i can offer", "i can provide", "i can suggest", "i can help", "let me",
	"不过", "但是", "但我", "以下", "sin embargo", "pero puedo", "en su lugar", "cependant", "toutefois", "mais je peux", "voici", "jedoch", "allerdings", "aber ich kann", "stattdessen", "no entanto", "porém", "mas posso",
	"tuttavia", "però", "ma posso", "однако", "но я могу", "вместо этого", "ただし", "しかし", "代わりに", "하지만", "그러나", "대신", "echter", "maar ik kan", "jednak", "ancak", "ولكن", "لكن",
}

// A refusalPattern is one way to begin a refusal, in one language.
type refusalPattern struct {
	first   string // characters that it can begin with; "" for any
	pattern *regexp.Regexp
}

func beginning(first, pattern string) refusalPattern {
	return refusalPattern{first, regexp.MustCompile(`^(?:` + strings.ReplaceAll(pattern, "\n", "") + `)`)}
}

// Parts of the English patterns. A refusal is an inability or an unwillingness
// of the writer, with what it is asked to do; alone, "I can't" is prose: "I
// can't wait", "I can't stress enough".
const (
	apology = `(?:(?:i'?m|i am) (?:really |very |so |truly |deeply )?(?:sorry|afraid)|(?:i )?(?:sincerely )?apologi[sz]e|(?:my )?(?:sincere )?apologies|sorry|unfortunately|regrettably|i regret)`
	// What may stand between an apology and the refusal.
	bridge = `(?:[,.:;! -]|\b(?:but|that|as|for|to say|any|the|confusion|inconvenience|this|your|about|request|however|and|at|time|moment|frustration)\b)*`
	self   = `(?:as an? (?:responsible |helpful |large |text-based |artificial |harmless |ethical )*(?:ai|language model|assistant|artificial intelligence|chatbot|intelligence)[^.,;:!?]{0,60}[,;:.]? ?(?:i am programmed to [^.]{0,60}[.,] ?)?)`
	cannot = `i(?:'m| am)? ?(?:just |simply |really |currently |actually |am |also |still )*(?:can(?:'?t|not| not)|could(?:n't| not)|won'?t|will not|must (?:respectfully )?(?:decline|refuse)(?: to)?|(?:have to|need to|would have to|should) (?:respectfully )?(?:decline|refuse)(?: to)?|(?:respectfully )?decline(?: to)?|refuse to|unable to|not able to|not capable of|incapable of|not (?:in a position|allowed|permitted|authori[sz]ed|designed|programmed|equipped|comfortable|willing)(?: to)?|(?:do not|don'?t|wouldn'?t|would not) (?:feel|be) comfortable|(?:do not|don'?t) (?:feel (?:right|able)|think (?:it (?:is|would be)|i can|i should)|believe (?:it (?:is|would be)|i can|i should))|(?:do not|don'?t) (?:actually )?(?:have|possess) (?:direct |real-time |any |the |full |live )*(?:access|ability|capability|capabilities|permission|capacity|rights))`
	// What a writer who helps is asked for. "See", "believe" or "wait" are not
	// among it.
	deed = `(?:ethically |legally |directly |actually |personally |in good conscience,? |really |knowingly |be able to |safely |recommend or |responsibly |currently |fully |simply |also |just |to |or )*(?:help|assist|provid|fulfil|comply|complet|creat|writ|generat|answer|discuss|engag|support|shar|giv|offer|produc|mak|tell|do\b|perform|browse|access|search|open|view|watch|listen|execut|run|recommend|promot|encourag|condon|participa|continu|proceed|respond|process|translat|reproduc|quot|disclos|reveal|advis|predict|present|carry out|go into|go along|teach|explain|describ|suggest|draft|design|accommodat|compl[iy]|satisf|handl|take sides|role-?play|pretend|act as|speculat|retriev|look up|summari[sz]e|read|draw|display|show|send|deliver|confirm|verify|guide|instruct|detail|list|express|endors)`
)

// refusals are the ways to begin a refusal. The English ones follow the
// prefixes that safety benchmarks count (AdvBench, XSTest) and what answers of
// nine models to 805 instructions really began with.
var refusals = []refusalPattern{
	// I'm sorry, but [as an AI …,] I can't help with that.
	beginning("ismaur", apology+bridge+self+`?`+cannot+`[ ,]*`+deed),
	beginning("ismaur", apology+bridge+self+`?`+cannot+`(?: (?:with )?(?:that|this|so)| to)?[.!]`),
	beginning("ismaur", apology+bridge+self+`?i (?:am|'m) (?:an? )?(?:just )?(?:an? )?(?:text-based |large )?(?:ai|language model|assistant)[^.]{0,60}(?:and|,) (?:i )?(?:can'?t|cannot|do(?:n'?t| not) have (?:the |any )?(?:access|ability|capability))`),
	beginning("ismaur", apology+bridge+`(?:(?:that|this|your) (?:request|question|topic|content) (?:is|goes|violates|falls)\b|it (?:is not|isn't|would not be|goes against|is against) (?:appropriate|ethical|possible for me|within|my|our))`),
	// I can't help with that. I won't write this.
	beginning("i", cannot+`[ ,]*(?:to )?`+deed),
	beginning("i", cannot+`(?: (?:with )?(?:that|this|so)| to)?[.!]`),
	beginning("i", `i (?:do not|don'?t) (?:feel|believe) (?:that )?(?:comfortable|it (?:is|would be) (?:appropriate|ethical|right|wise))`),
	// As an AI, I can't help with that.
	beginning("a", self+`(?:and )?`+cannot+`[ ,]*`+deed),
	beginning("tmn", `(?:this|that|my|no,?|thank you for [^.]{0,60}[.,]) ?(?:(?:request|question|guidelines|programming)[^.]{0,40} (?:violates|goes against|prevents?|prohibits?|do(?:es)? not allow)|`+apology+bridge+cannot+`[ ,]*`+deed+`)`),
	// Chinese, Japanese, Korean
	beginning("很非抱对對我作身", `(?:(?:很|非常|十分)?(?:抱歉|遗憾|遺憾)|对不起|對不起)[,，。!！ ]*(?:但|作为[^,，。]{0,30}[,，]|作為[^,，。]{0,30}[,，]|,|，| )*(?:我|本)?[^。.!！?？]{0,12}?(?:无法|無法|不能|不可以|没有办法|沒有辦法|不便|没办法|拒绝|拒絕|不会(?:提供|协助|帮助))`),
	beginning("我作身", `(?:作为|作為|身为)?(?:一个|一個|一名)?[^,，。]{0,30}[,，]?我(?:目前|暂时|暫時)?(?:无法|無法|不能|不会|不會)(?:为您|为你|向您|向你|直接|協助|协助|幫助|帮助|帮|幫|提供|回答|满足|滿足|完成|生成|讨论|討論|参与|參與|支持|给出|給出|执行|執行)`),
	beginning("申す大ごお残恐", `(?:大変|誠に)?(?:申し訳(?:ありません|ございません|ないのですが)|すみません|ごめんなさい|恐れ入りますが|残念ながら)[^。.!！?？]{0,60}(?:できません|できかねます|お手伝いできない|お答えできない|致しかねます|いたしかねます|控えさせて|お断り)`),
	beginning("죄미유안", `(?:죄송합니다|죄송하지만|미안하지만|미안합니다|유감이지만|유감스럽게도|안타깝지만|안타깝게도)[^.!?]{0,80}(?:할 수 없|수 없|수 없습니다|도와드릴 수|드릴 수 없|거절|어렵습니다|불가능)`),
	// Spanish, Portuguese, Italian, French
	beginning("lnm", `(?:lo siento|lo lamento|lamento|me temo|mis disculpas|no, lo siento)[^.!?¡¿]{0,40}\b(?:no (?:puedo|podré|podría|me es posible|estoy (?:capacitad[oa]|autorizad[oa]))|incapaz de)`),
	beginning("nlc", `(?:lamentablemente,? |como (?:una? )?(?:ia|modelo|asistente|inteligencia)[^.,]{0,60}, )?no (?:puedo|podré) (?:ayudar|asistir|proporcionar|proveer|cumplir|responder|escribir|crear|generar|ofrecer|dar|participar|realizar|continuar|hacer eso|hacerlo)`),
	beginning("dlisp", `(?:desculpe|desculpa|lamento|sinto muito|infelizmente|peço desculpas?)[^.!?]{0,40}\bnão (?:posso|consigo|poderei|me é possível|sou capaz|tenho (?:acesso|permissão))`),
	beginning("n", `não (?:posso|poderei|consigo) (?:ajudar|auxiliar|fornecer|cumprir|responder|escrever|criar|gerar|oferecer|dar|participar|atender)`),
	beginning("mspn", `(?:mi (?:dispiace|spiace|scuso)|spiacente|purtroppo|sono spiacente)[^.!?]{0,40}\bnon (?:posso|sono in grado|mi è poss|potrò|ho accesso)`),
	beginning("n", `non (?:posso|sono in grado di) (?:aiutart|aiutar|assister|fornir|soddisf|rispond|scriver|crear|generar|offrir|partecipar)`),
	beginning("jdm", `(?:(?:je suis|je regrette|désolée?|malheureusement|je m'excuse|mes excuses)[^.!?]{0,40}\b)(?:je ne (?:peux|puis|pourrai|suis) (?:pas|malheureusement pas)|il m'est impossible|je ne suis pas en mesure)`),
	beginning("je", `(?:en tant qu[e'][^,.]{0,50}, )?je ne (?:peux|puis) pas (?:vous |t'|te |l')?(?:aider|assister|fournir|répondre|écrire|créer|générer|proposer|donner|participer|accéder|satisfaire|faire (?:cela|ça))`),
	// German, Dutch, Polish
	beginning("etlblia", `(?:es tut mir (?:sehr )?leid|tut mir leid|leider|bedaure|entschuldigung|ich bedaure)[^.!?]{0,40}\b(?:ich kann|kann ich|ich darf|darf ich|ich bin nicht in der lage|das kann ich)(?: (?:ihnen|dir|dabei|hier|diese[rsmn]?|das|leider|ihre[rnm]?|deine[rnm]?|bitte|anfrage|frage|keine[rnms]?|nicht|damit|dazu|so|etwas))* ?(?:nicht|keine[rnms]?|\bin der lage\b)?`),
	beginning("i", `ich (?:kann|darf|werde) (?:ihnen |dir |das |dabei |diese[rsmn]? |leider |ihre[rnm]? |deine[rnm]? |bitte |anfrage |hier )*(?:nicht|keine[rnms]?) [^.!?]{0,60}(?:helfen|weiterhelfen|unterstützen|bereitstellen|beantworten|erfüllen|schreiben|erstellen|geben|nachkommen)`),
	beginning("hs", `(?:het spijt me|sorry|helaas)[^.!?]{0,40}\b(?:ik kan|kan ik|ik mag)[^.!?]{0,40}\b(?:niet|geen)\b`),
	beginning("npb", `(?:niestety|przykro mi|przepraszam|bardzo mi przykro)[^.!?]{0,40}\bnie (?:mogę|jestem w stanie|będę)`),
	// Russian, Ukrainian, Turkish, Arabic, Hindi
	beginning("кияпсв", `(?:извините|простите|к сожалению|прошу прощения|мне (?:очень )?жаль|вибачте|на жаль)[^.!?]{0,50}(?:не могу|не смогу|не могла? бы|не в состоянии|не имею (?:возможности|доступа)|не можу|не зможу)`),
	beginning("я", `я не (?:могу|смогу|буду) (?:вам |тебе |с этим |в этом )*(?:помоч|помога|предостав|выполн|ответ|написа|созда|участв|обсужда|давать|дать)`),
	beginning("üöm", `(?:üzgünüm|maalesef|özür dilerim|malesef)[^.!?]{0,80}(?:edemem|edemiyorum|olamam|olamıyorum|veremem|yapamam|yardımcı olam|mümkün değil|sağlayam|yazamam)`),
	beginning("عآاأل", `(?:عذرا|عذراً|آسف|أعتذر|للأسف|أنا آسف|اعتذر)[^.!?؟]{0,60}(?:لا أستطيع|لا يمكنني|لن أتمكن|لا استطيع|غير قادر)`),
	beginning("मक्ष", `(?:मुझे (?:खेद|माफ़|माफ|क्षमा)|क्षमा करें|माफ़ करें|माफ कीजिए)[^।.!?]{0,80}(?:नहीं (?:कर|दे|बता|लिख)|असमर्थ|मदद नहीं)`),
}
