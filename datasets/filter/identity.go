package filter

import (
	"regexp"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
)

// Reasons of the identity filter.
const (
	ReasonIdentity  = "identity"  // it claims to be a model of some vendor
	ReasonCutoff    = "cutoff"    // it speaks of where its knowledge ends
	ReasonAssistant = "assistant" // it speaks of itself as of a language model, where that is asked for
)

// identity keeps answers that do not give the teacher away: a student that is
// taught them would claim to be another model, or date its knowledge by that
// model's. A teacher's own name is a leak like any other's, since the student
// is not the teacher either; allow lists the names that the student may claim.
//
// Only what the writer says of itself counts. "Claude is an assistant made by
// Anthropic" is a fact about Claude, and what stands in quotation marks or in
// code is somebody else's word.
type identity struct {
	allow             []string // folded
	cutoff, assistant bool
}

func newIdentity(o *options.Set) Filter {
	f := &identity{allow: texts(o, "allow", maxNames), cutoff: o.Bool("cutoff", true), assistant: o.Bool("assistant", false)}
	for i := range f.allow {
		f.allow[i] = folded(f.allow[i])
	}
	return f
}

func (*identity) Name() string    { return "identity" }
func (*identity) Version() string { return "1" }

func (f *identity) Reject(in *Input) string {
	text := in.Candidate.Content()
	if text == "" {
		return ""
	}
	text = folded(withoutCode(text))
	switch {
	case f.claims(text):
		return ReasonIdentity
	case f.cutoff && mentions(text, cutoffWords, cutoffs):
		return ReasonCutoff
	case f.assistant && mentions(text, assistantWords, assistants):
		return ReasonAssistant
	}
	return ""
}

// claims tells whether a folded text holds a claim that is not allowed.
func (f *identity) claims(text string) bool {
	for from, to := range around(text) {
		window := text[from:to]
		for _, claim := range identities {
			if !containsAny(window, claim.words) {
				continue
			}
			for _, at := range claim.pattern.FindAllStringIndex(window, -1) {
				begin, end := from+at[0], from+at[1]
				if !quoted(text, begin) && !f.allowed(text[begin:end]) {
					return true
				}
			}
		}
	}
	return false
}

// nearName is how far from a name a claim reaches, in bytes.
const nearName = 320

// around gives the stretches of a text around the names of models and their
// makers. They do not overlap and begin and end between words.
func around(text string) func(yield func(from, to int) bool) {
	return func(yield func(from, to int) bool) {
		from, to := 0, 0
		for at := range names(text) {
			if at > to+nearName {
				if to > 0 && !yield(from, to) {
					return
				}
				from = max(to, wordStart(text, at-nearName))
			}
			to = wordStart(text, at+nearName)
		}
		if to > 0 {
			yield(from, to)
		}
	}
}

// wordStart is the beginning of the word at a place, or the text's end.
func wordStart(text string, at int) int {
	if at >= len(text) {
		return len(text)
	}
	at = max(0, at)
	for at > 0 && text[at] != ' ' {
		at--
	}
	return at
}

// names gives the places of names in a folded text, in order.
func names(text string) func(yield func(at int) bool) {
	return func(yield func(at int) bool) {
		for i := 0; i < len(text); {
			if c := text[i]; c < 'a' || c > 'z' {
				if c >= 0x80 && hanVendor(text[i:]) && !yield(i) {
					return
				}
				i++
				continue
			}
			begin := i
			for i < len(text) && (text[i] >= 'a' && text[i] <= 'z' || isDigit(text[i])) {
				i++
			}
			if isName(text[begin:i]) && !yield(begin) {
				return
			}
		}
	}
}

func hanVendor(text string) bool {
	return slices.ContainsFunc(hanNames, func(name string) bool { return strings.HasPrefix(text, name) })
}

// isName tells whether a word is, or begins, the name of a model or a maker.
func isName(word string) bool {
	if nameWords[word] {
		return true
	}
	// With a version in the same word: gpt4, qwen2, llama3.
	stem := strings.TrimRight(word, "0123456789")
	return len(stem) < len(word) && nameWords[stem] || strings.HasPrefix(word, "chatgpt") || strings.HasPrefix(word, "gpt")
}

// allowed tells whether a claim names nothing but what the student may claim.
func (f *identity) allowed(claim string) bool {
	if len(f.allow) == 0 {
		return false
	}
	for _, name := range f.allow {
		claim = strings.ReplaceAll(claim, name, "")
	}
	for range names(claim) {
		return false
	}
	return true
}

// quoted tells whether a quotation is opened right before text[at:], within
// the same sentence.
func quoted(text string, at int) bool {
	before := text[max(0, at-80):at]
	if i := strings.LastIndexAny(before, ".!?。！？"); i >= 0 {
		// A quotation often begins with its sentence.
		before = before[i+1:]
	}
	return strings.Count(before, `"`)%2 == 1 ||
		strings.LastIndex(before, "「") > strings.LastIndex(before, "」") ||
		strings.LastIndex(before, "«") > strings.LastIndex(before, "»") ||
		strings.LastIndex(before, "『") > strings.LastIndex(before, "』")
}

func containsAny(text string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// mentions tells whether a pattern is in a text, outside of quotations. Every
// text that a pattern finds holds one of words.
func mentions(text string, words []string, patterns []*regexp.Regexp) bool {
	if !containsAny(text, words) {
		return false
	}
	for _, p := range patterns {
		for _, at := range p.FindAllStringIndex(text, 16) {
			if !quoted(text, at[0]) {
				return true
			}
		}
	}
	return false
}

// Names that are nothing but those of models and their makers, in lower case.
const plainNames = `chat-?gpt|gpt-?[345](?:\.5|o)?(?:-[a-z]+)?|gpt-oss|openai|open ai|anthropic|deep ?seek|qwen|qwq|tongyi|moonshot ai|moonshot|kimi k[0-9.]+|zhipu|zhipuai|z\.ai|chatglm|glm-?[0-9.]+|baichuan|minimax|ernie bot|ernie|wenxin yiyan|doubao|hunyuan|internlm|stepfun|mistral ai|mixtral|ministral|meta ai|meta llama|x\.?ai|cohere|command r\+?|google deepmind|deepmind|google ai|google gemini|bing chat|microsoft copilot|inflection ai|perplexity ai|ai21|nemotron|vicuna|lmsys|large model systems organization|wizardlm|claude [0-9.]+|claude (?:instant|opus|sonnet|haiku)|llama[ -]?[234][0-9.]*|gemini (?:pro|ultra|flash|[0-9.]+)|gemma [0-9]+|phi-[0-9.]+|通义千问|千问|通义|文心一言|深度求索|月之暗面|智谱|豆包|混元|百川|讯飞星火|阿里云|阿里巴巴|字节跳动|百度|腾讯|硅基流动`

// Names that are also those of people, of stars and of beasts: they count where
// the sentence speaks of an AI.
const sharedNames = `claude|gemini|bard|llama|gemma|grok|kimi|mistral|copilot|cortana|alexa|siri|pi|phi|command|falcon|yi|aya|nova|google|microsoft|meta|facebook|amazon|nvidia|baidu|alibaba(?: cloud)?|tencent|bytedance|huawei|ibm|apple`

const (
	aiWords = `(?:ai\b|a\.i\.|artificial intelligence|language model|llm|chat ?bot|virtual assistant|ai assistant|assistant|model)`
	makes   = `(?:made|built|created|developed|trained|designed|produced|programmed|fine-tuned|powered|engineered|provided|launched|brought to you)`
	iAm     = `(?:i am|i'm|i’m|my name is|my name's|i am called|i'm called|you can call me|you are (?:talking|chatting|speaking) (?:to|with)|you're (?:talking|chatting|speaking) (?:to|with)|i go by|i was named|call me)`
)

// nameWords are the words with which these names begin, as words stand between
// signs and spaces.
var nameWords = func() map[string]bool {
	words := map[string]bool{}
	for _, w := range strings.Fields(`chatgpt chat gpt openai open anthropic deepseek deep qwen qwq tongyi moonshot kimi zhipu zhipuai z chatglm glm baichuan minimax ernie wenxin doubao hunyuan internlm stepfun mistral mixtral ministral
		meta xai x cohere command google deepmind bing microsoft inflection perplexity ai21 nemotron vicuna lmsys large wizardlm claude llama gemini gemma phi bard grok copilot cortana alexa siri pi falcon yi aya nova facebook amazon nvidia baidu alibaba tencent bytedance huawei ibm apple`) {
		words[w] = true
	}
	return words
}()

var hanNames = []string{"通义", "千问", "文心一言", "深度求索", "月之暗面", "智谱", "豆包", "混元", "百川", "讯飞", "阿里", "字节", "百度", "腾讯", "硅基", "谷歌", "微软", "华为", "クロード", "챗지피티"}

// An identityClaim is one way of saying who one is.
type identityClaim struct {
	words   []string // one of which is in the text
	pattern *regexp.Regexp
}

func claim(words []string, pattern string) identityClaim {
	return identityClaim{words, regexp.MustCompile(pattern)}
}

var (
	englishSelf = []string{"i am", "i'm", "my name", "call me", "called", "talking", "chatting", "speaking", "i go by", "i was"}
	asSelf      = []string{"as a"}
	makerSelf   = []string{"my creator", "my developer", "my maker", "i was", "i've been", "i have been", "created me", "trained me", "made me", "built me", "developed me", "designed me", "my training", "our use"}
)

// identities follow open-instruct
// (scripts/data/filtering_and_updates/filter_dataset_by_keywords.py) where the
// writer speaks of itself; its patterns for what is said of others would reject
// every answer about a vendor.
var identities = []identityClaim{
	// I am ChatGPT. My name is DeepSeek.
	claim(englishSelf, `\b`+iAm+` (?:actually |in fact |indeed |also |the |an? |known as )*(?:`+plainNames+`)\b(?:[^'\pL\d]|$|'s (?:ai|assistant|language|chat))`),
	// I'm Claude, an AI assistant.
	claim(englishSelf, `\b`+iAm+` (?:actually |in fact |indeed |the )*(?:`+sharedNames+`)(?:[,.!:;(]| -|'s| and| from| by| made)[^.!?\n]{0,60}`+aiWords),
	claim(englishSelf, `\b`+iAm+` (?:an? |the |your )?[^.!?\n]{0,30}`+aiWords+`[^.!?\n]{0,30}(?:called|named|known as) (?:`+plainNames+`|`+sharedNames+`)\b`),
	// I am a language model trained by OpenAI.
	claim(englishSelf, `\b(?:i am|i'm|i was|i've been|i have been) [^.!?\n]{0,100}\b`+aiWords+`[^.!?\n]{0,60}\b(?:`+makes+` (?:and [a-z]+ )?(?:by|at) (?:the (?:team|people|company|researchers) (?:at|of) )?(?:`+plainNames+`|`+sharedNames+`)|(?:from|of) (?:`+plainNames+`))\b`),
	// As an AI developed by OpenAI,
	claim(asSelf, `\bas an? [^.!?\n]{0,60}\b`+aiWords+`[^.!?\n]{0,60}\b`+makes+` (?:and [a-z]+ )?(?:by|at) (?:the (?:team|people|company|researchers) (?:at|of) )?(?:`+plainNames+`|`+sharedNames+`)\b`),
	claim(asSelf, `\bas (?:an? )?(?:`+plainNames+`)(?: [a-z]+)?, i\b`),
	// I was created by Anthropic.
	claim(makerSelf, `\bi (?:was|am|have been|'ve been) (?:[a-z]+ly )?`+makes+` (?:and [a-z]+ )?(?:by|at) (?:a team (?:at|of) |the (?:team|people|company|researchers|engineers) (?:at|of) )?(?:`+plainNames+`|(?:`+sharedNames+`)\b[^.!?\n]{0,60}`+aiWords+`)\b`),
	claim(makerSelf, `\b(?:`+plainNames+`) (?:has )?(?:created|trained|made|built|developed|designed|programmed) me\b`),
	claim(makerSelf, `\bmy (?:creators?|developers?|makers?|training)(?:,| at| is| are| by|, the (?:team|people|researchers) at) (?:the team at )?(?:`+plainNames+`)\b`),
	// It is against OpenAI's use-case policy.
	claim([]string{"against", "violat"}, `\b(?:against|violates?|violating) (?:`+plainNames+`)(?:'s?)? (?:[a-z-]+ )?(?:polic|guideline|terms|rules)`),
	// Chinese
	claim([]string{"我"}, `我(?:是|叫|的名字是|叫做|名叫)(?:由)?[^。.!！?？,，\n]{0,20}(?:`+plainNames+`|claude|gemini|llama|grok|kimi|bard)`),
	claim([]string{"我", "作为", "作為", "由"}, `(?:我是|作为|作為|我由)[^。.!！?？\n]{0,24}(?:由|来自|來自)?(?:`+plainNames+`|谷歌|google|meta|微软|华为)[^。.!！?？\n]{0,12}(?:开发|開發|训练|訓練|研发|研發|创建|創建|创造|打造|推出|提供|发布)`),
	// Japanese, Korean
	claim([]string{"私は", "私の名前", "わたしは", "저는", "제 이름은"}, `(?:私は|私の名前は|わたしは|저는|제 이름은) ?[^。.!！?？\n]{0,24}(?:`+plainNames+`|claude|gemini|llama|grok|kimi|bard|クロード|챗지피티)`),
	// Spanish, Portuguese, Italian, French, German, Dutch, Russian
	claim([]string{"soy", "sou ", "sono", "je suis", "ich bin", "ik ben", "me llamo", "je m'appelle", "mi chiamo", "meu nome", "mein name", "я "}, `(?:\b(?:soy|me llamo|mi nombre es|(?:eu )?sou|meu nome é|sono|mi chiamo|je suis|je m'appelle|ich bin|ich heiße|mein name ist|ik ben|mijn naam is) |я(?: -)? |меня зовут )(?:o |a |le |la |der |das |il |el )?(?:`+plainNames+`)\b`),
	claim([]string{"soy", "sou ", "sono", "je suis", "ich bin", "ik ben", "como ", "comme", "en tant", "als ", "in quanto", "я ", "как "}, `(?:\b(?:soy|(?:eu )?sou|sono|je suis|ich bin|ik ben|como|en tant qu[e']|als|in quanto)|я|как) [^.!?\n]{0,80}(?:modelo|modèle|modell|modello|ia\b|ki\b|intelig|intellig|assist|asist|ai\b|модел|ассистент|помощник|ии\b)[^.!?\n]{0,60}(?:`+plainNames+`)`),
}

// Words without which no phrase of cutoffs is in a text.
var cutoffWords = []string{
	"my last", "my latest", "my most recent", "my knowledge", "my training", "my current", "my data", "my information", "knowledge cut", "i was last",
	"我的知识", "我的知識", "我的训练", "我的訓練", "我最后", "我最後", "我的最后", "我所掌握", "知识截止", "知识更新", "我的数据", "mi última", "mi conocimiento", "mis datos", "mi entrenamiento", "ma dernière", "mes connaissances", "mon entraînement", "meine letzt", "mein wissen", "meinem letzten", "meiner letzten", "minha última", "meu conhecimento", "mio ultimo", "mia ultima", "mie conoscenze", "моего последнего", "мои знания", "моих знаний", "моей последней", "私の知識", "私の学習", "제 지식", "제가 학습",
}

// cutoffs speak of where the writer's knowledge ends. The English ones follow
// open-instruct (filter_cutoff_date.py), which asks for a date as well; here
// the writer has to speak of itself.
var cutoffs = []*regexp.Regexp{
	regexp.MustCompile(`\b(?:as of|as at|at the time of|up to|until|since|after|before|beyond|to|per|in|on) my (?:last|latest|most recent|current) (?:known )?(?:knowledge |training |data |information |model )*(?:update|updates|training|cutoff|cut-off|cut off|knowledge|data|refresh|database)\b`),
	regexp.MustCompile(`\bmy (?:last |latest |most recent |current )?(?:(?:knowledge|training|data|information|database)(?: data| base| set)?[ -]*)+(?:'s )?(?:cutoff|cut-off|cut off|update\b|last update|(?:only |currently )*(?:goes|extends|runs|reaches|includes?|covers?|ends?|ended|stops?|stopped|was|is|are) (?:[a-z]+ )?(?:up )?(?:only )?(?:to|until|till|through|in|as of|last updated|current|limited to|information (?:up )?(?:to|until)|data (?:up )?(?:to|until)|based on|at)\b)`),
	regexp.MustCompile(`\b(?:my|i have a|i've a) knowledge (?:cutoff|cut-off|cut off)\b`),
	regexp.MustCompile(`\bi was last (?:updated|trained)\b`),
	regexp.MustCompile(`\bmy (?:training )?(?:data|knowledge|information)(?: only| currently)* (?:goes|extends|runs) (?:only )?(?:up )?(?:to|until|through)`),
	regexp.MustCompile(`(?:截至|截止到?|直到|根据)?我(?:的|所掌握的)?(?:最后|最後|最近|最新)?(?:一次)?(?:的)?(?:知识|知識|训练|訓練|数据|數據|信息)?(?:库|庫|数据|數據)?(?:的)?(?:更新|截止|截至|只到|仅到|僅到|更新至|更新到)`),
	regexp.MustCompile(`\b(?:mi última actualización|mi conocimiento (?:llega|se actualizó|está actualizado)|mis datos (?:de entrenamiento )?(?:llegan|solo)|mi fecha de corte)`),
	regexp.MustCompile(`(?:\bma dernière mise à jour|\bmes connaissances (?:s'arrêtent|datent|vont jusqu|sont limitées))`),
	regexp.MustCompile(`\b(?:meine[mrs]? letzten? (?:aktualisierung|update|wissensstand|training)|mein wissen(?:sstand)? (?:reicht|endet|geht|stammt))`),
	regexp.MustCompile(`(?:\bminha última atualização|\bmeu conhecimento (?:vai|é atualizado|foi atualizado)|\bmio ultimo aggiornamento|\bmia ultima (?:formazione|aggiornamento)|\bmie conoscenze (?:arrivano|si fermano|sono aggiornate))`),
	regexp.MustCompile(`(?:моего последнего обновления|мои знания (?:ограничены|заканчиваются|актуальны)|моей последней (?:тренировки|версии))`),
	regexp.MustCompile(`(?:私の(?:知識|学習データ)は[^。\n]{0,30}(?:まで|時点)|제(?: 지식은|가 학습한 데이터는)[^.\n]{0,30}까지)`),
}

var assistantWords = []string{"as an ai", "as a language model", "as a large language model", "as an artificial", "i'm an ai", "i am an ai", "i'm just an ai", "i am just an ai", "i'm a language model", "i am a language model", "i'm a large language", "i am a large language", "作为一个人工智能", "作为人工智能", "作为ai", "作为一个ai", "作为一个语言模型", "作为一种人工智能", "als ki", "en tant qu'ia", "como modelo de lenguaje", "como una ia", "как искусственный интеллект", "как языковая модель"}

var assistants = []*regexp.Regexp{
	regexp.MustCompile(`\b(?:as|i am|i'm)(?: just)? an? (?:[a-z-]+ ){0,2}(?:ai|artificial intelligence|(?:large )?language model)\b(?: (?:language )?(?:model|assistant|chatbot|system))?(?:,| i\b|\.|$| and i)`),
	regexp.MustCompile(`作为(?:一个|一种|一名)?(?:人工智能|ai|语言模型)`),
	regexp.MustCompile(`\bals ki(?:-|,| )|\ben tant qu'ia\b|\bcomo (?:modelo de lenguaje|una ia)\b|как (?:искусственный интеллект|языковая модель)`),
}
