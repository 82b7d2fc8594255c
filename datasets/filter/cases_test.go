package filter

import (
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// TestRefusal holds what is a refusal and, which matters as much, what is none.
func TestRefusal(t *testing.T) {
	help := strings.Repeat("Then fold the paper along the dotted line and press it flat. ", 12)
	for _, tc := range []struct {
		answer string
		want   bool
	}{
		{"I'm sorry, but I can't assist with that request.", true},
		{"I’m really sorry, but I can’t help with that.", true},
		{"**I cannot fulfill this request.**", true},
		{"> Sorry, but I can't provide the lyrics to that song.", true},
		{"I apologize, but I do not feel comfortable generating a list of ways to die.", true},
		{"As an AI language model, I cannot provide legal advice.", true},
		{"Unfortunately, I am unable to browse the internet.", true},
		{"I must decline to write this.", true},
		{"I won't help with that. Please talk to somebody you trust.", true},
		{"No, I'm sorry but I can't help you write your memoir.", true},
		{"I can't comply with that.", true},
		{"I will not provide any information to help with tax fraud.", true},
		{"很抱歉，我无法回答这个问题。", true},
		{"对不起，作为一个人工智能助手，我不能提供这类信息。", true},
		{"作为AI，我无法提供医疗建议。", true},
		{"申し訳ありませんが、そのご依頼にはお応えできません。", true},
		{"죄송하지만 그 요청은 도와드릴 수 없습니다.", true},
		{"Lo siento, pero no puedo ayudarte con eso.", true},
		{"No puedo proporcionar esa información.", true},
		{"Desculpe, mas não posso ajudar com isso.", true},
		{"Mi dispiace, ma non posso aiutarti con questa richiesta.", true},
		{"Je suis désolé, mais je ne peux pas vous aider.", true},
		{"Es tut mir leid, aber dabei kann ich nicht helfen.", true},
		{"Ich kann Ihnen dabei leider nicht weiterhelfen.", true},
		{"Het spijt me, maar ik kan daar niet bij helpen.", true},
		{"Przykro mi, ale nie mogę w tym pomóc.", true},
		{"Извините, но я не могу помочь с этим.", true},
		{"Üzgünüm, bu konuda yardımcı olamam.", true},
		{"عذراً، لا أستطيع مساعدتك في ذلك.", true},
		{"I'm sorry, but I can't write the whole book. However, I would advise hiring a writer.", true}, // it turns around, and gives nothing

		// Help.
		{"I'm sorry to hear that your dog died. Here is what may help.", false},
		{"I'm sorry for the confusion! The answer is 12.", false},
		{"Sorry for the delay. Let's compute: 3 + 4 = 7.", false},
		{"I can't wait to see you at the party!", false},
		{"I cannot stress enough how important sleep is.", false},
		{"I can't believe that you ate the whole cake.", false},
		{"I cannot see any error in this code; it prints 5.", false},
		{"Unfortunately, the two lines never meet, so there is no solution.", false},
		{"Unfortunately for Tom, the shop was closed.", false},
		{"I don't know. I had to give up my dream.", false},
		{"No, it can't be divided by 3.", false},
		{"The program cannot open the file because the path is wrong.", false},
		{"You can't assist him if he refuses help.", false},
		{"Dear Sir, I am writing to complain. I cannot accept the offer.", false},
		{"As an AI researcher, she could not agree.", false},
		{"As an AI, I don't have feelings, but a climber may feel joy.", false},
		{"I'm unable to sleep, said the king. The queen laughed.", false},
		{"If I can't help you, who can?", false},
		{"It's not possible to divide by zero.", false},
		{"抱歉让你久等了，答案是 5。", false},
		{"我不能不说，这本书很好。", false},
		{"Es tut mir leid zu hören, dass du krank bist. Trink viel Wasser.", false},
		{"Je suis désolé d'apprendre cela. Voici trois conseils.", false},
		{"Lo siento mucho por tu pérdida. Aquí tienes un texto.", false},
		{"Извините за ожидание. Ответ: 5.", false},
		{"I'm sorry, but I can't draw a picture. However, here is how you fold it. " + help, false}, // it turns around, and helps
		{"", false},
		{"```\nI'm sorry\n```", false},
		{strings.Repeat("word ", 60) + "I'm sorry, but I can't assist with that request.", false}, // later than a refusal is
	} {
		if got := filterOf(t, "refusal", nil).Reject(answerTo("chat", "q", tc.answer)) != ""; got != tc.want {
			t.Errorf("refusal %v, want %v: %.80s", got, tc.want, tc.answer)
		}
	}
	hedged := answerTo("chat", "q", "I'm sorry, but I can't draw a picture. However, here is how you fold it. "+help)
	if got := filterOf(t, "refusal", map[string]any{"hedged": true}).Reject(hedged); got != ReasonRefusal {
		t.Errorf("a hedged one, where they are asked for: %q", got)
	}
	thought := answerTo("chat", "q", "4")
	thought.Candidate.Messages[0].ReasoningContent = chat.Text("I'm sorry, but I can't assist with that.")
	if got := filterOf(t, "refusal", nil).Reject(thought); got != "" {
		t.Errorf("the reasoning made it %q", got)
	}
}

func TestIdentity(t *testing.T) {
	for _, tc := range []struct {
		answer, want string
	}{
		{"I am DeepSeek, ready to help.", ReasonIdentity},
		{"Hi! I'm ChatGPT.", ReasonIdentity},
		{"My name is Qwen and I like sums.", ReasonIdentity},
		{"I'm Claude, an AI assistant made by Anthropic.", ReasonIdentity},
		{"I’m Claude - an AI assistant created by Anthropic to be helpful.", ReasonIdentity},
		{"You can call me Vicuna, as I was trained by researchers.", ReasonIdentity},
		{"As an AI language model developed by OpenAI, I see it so.", ReasonIdentity},
		{"I am a large language model, trained by Google.", ReasonIdentity},
		{"I was created by Anthropic.", ReasonIdentity},
		{"I am an AI model named Kimi.", ReasonIdentity},
		{"That goes against OpenAI's use-case policy.", ReasonIdentity},
		{"我是通义千问，由阿里云开发。", ReasonIdentity},
		{"我是DeepSeek，很高兴见到你。", ReasonIdentity},
		{"作为一个由OpenAI训练的语言模型，我认为可以。", ReasonIdentity},
		{"Soy ChatGPT, ¿en qué puedo ayudarte?", ReasonIdentity},
		{"Ich bin ein Sprachmodell von OpenAI. Ich bin ChatGPT.", ReasonIdentity},
		{"Je suis un modèle de langage développé par OpenAI.", ReasonIdentity},
		{"私はOpenAIのChatGPTです。", ReasonIdentity},
		{"Я ChatGPT, чем могу помочь?", ReasonIdentity},
		{"As of my last update in April 2023, the answer is 4.", ReasonCutoff},
		{"As of my knowledge cutoff, it holds.", ReasonCutoff},
		{"My training data only goes up until 2021.", ReasonCutoff},
		{"I was last updated in September 2021, so check the news.", ReasonCutoff},
		{"截至我最后一次更新，总统是他。", ReasonCutoff},
		{"Mes connaissances s'arrêtent en 2023.", ReasonCutoff},

		// What is said of others, and what only looks like it.
		{"Claude is an AI assistant developed by Anthropic.", ""},
		{"ChatGPT was created by OpenAI in 2022.", ""},
		{"OpenAI's GPT-4 and Google's Gemini are language models.", ""},
		{"My name is Claude Monet, and I paint water lilies.", ""},
		{"I'm Claude. I bake bread in Lyon.", ""},
		{"I am a Gemini, so I love to talk.", ""},
		{"I'm Gemma, and this is my brother Bard.", ""},
		{"I am Siri Hustvedt's biggest fan.", ""},
		{"I am using ChatGPT to write a poem.", ""},
		{"I am better than ChatGPT at chess, said the engineer.", ""},
		{"She asked it, and it said \"I am ChatGPT.\"", ""},
		{"Write `I am DeepSeek` into the box.", ""},
		{"```python\nprint('I am ChatGPT')\n```", ""},
		{"I am paid by Google every month for my work as a model in its adverts.", ""},
		{"I am a model railway fan from Apple Valley.", ""},
		{"As a developer at OpenAI, she trained models.", ""},
		{"The value of pi: I am sure that it is 3.14.", ""},
		{"This page was last updated in March 2021.", ""},
		{"As of the last update of the software, the button is blue.", ""},
		{"My knowledge of French is poor.", ""},
		{"The knowledge cutoff of a model is the date of its newest data.", ""},
		{"我是一名老师，用通义千问备课。", ""},
		{"", ""},
	} {
		if got := filterOf(t, "identity", nil).Reject(answerTo("chat", "q", tc.answer)); got != tc.want {
			t.Errorf("%q, want %q: %s", got, tc.want, tc.answer)
		}
	}
	allow := map[string]any{"allow": []any{"Kimi", "Moonshot AI"}}
	for answer, want := range map[string]string{
		"I am an AI assistant named Kimi, developed by Moonshot AI.": "",
		"I'm Kimi, an AI assistant. I am ChatGPT.":                   ReasonIdentity,
	} {
		if got := filterOf(t, "identity", allow).Reject(answerTo("chat", "q", answer)); got != want {
			t.Errorf("with Kimi allowed %q, want %q: %s", got, want, answer)
		}
	}
	if got := filterOf(t, "identity", map[string]any{"cutoff": false}).Reject(answerTo("chat", "q", "As of my last update, 4.")); got != "" {
		t.Errorf("cutoff off: %q", got)
	}
	if got := filterOf(t, "identity", map[string]any{"assistant": true}).Reject(answerTo("chat", "q", "As an AI language model, I have no opinion.")); got != ReasonAssistant {
		t.Errorf("assistant on: %q", got)
	}
}

func TestLanguage(t *testing.T) {
	const (
		english = "The quick brown fox jumps over the lazy dog, and then it goes back to the forest where it lives with its family. It is a good day for all of them, because the sun is out and there is enough food to be had by the river that they know so well."
		german  = "Der schnelle braune Fuchs springt über den faulen Hund, und dann geht er zurück in den Wald, in dem er mit seiner Familie lebt. Es ist ein guter Tag für sie alle, weil die Sonne scheint und es genug zu essen gibt an dem Fluss, den sie so gut kennen."
		french  = "Le renard brun et rapide saute par-dessus le chien paresseux, puis il retourne dans la forêt où il vit avec sa famille. C'est une bonne journée pour eux tous, parce que le soleil brille et qu'il y a assez à manger près de la rivière qu'ils connaissent si bien."
		russian = "Быстрая коричневая лиса прыгает через ленивую собаку, а потом возвращается в лес, где она живёт со своей семьёй. Сегодня хороший день для всех."
		chinese = "敏捷的棕色狐狸跳过了懒狗，然后回到它和家人住的森林里。今天对大家来说都是好日子。"
		japan   = "すばやい茶色の狐がのろまな犬を飛び越えて、それから家族と暮らす森へ帰っていきます。今日はよい日です。"
		code    = "```go\nfunc main() {\n\tfmt.Println(\"hello\")\n}\n```"
	)
	for _, tc := range []struct{ name, prompt, answer, want string }{
		{"the same", english, english, ""},
		{"English and Chinese", english, chinese, ReasonLanguage},
		{"Chinese and English", chinese, english, ReasonLanguage},
		{"Chinese and Japanese", chinese, japan, ReasonLanguage},
		{"English and German", english, german, ReasonLanguage},
		{"German and French", german, french, ReasonLanguage},
		{"Russian and English", russian, english, ReasonLanguage},
		{"Russian", russian, russian, ""},
		{"French", french, french, ""},
		{"a translation is asked for", "Translate into German: " + english, german, ""},
		{"a language is asked for", "Say hello in Japanese.", "こんにちは、お元気ですか。私は元気です。", ""},
		{"a word for it in Chinese", "请把这句话翻译成德文。", german, ""},
		{"code", chinese, code, ""},
		{"code with a comment", "用 Go 写一个程序", code, ""},
		{"a formula", chinese, `$x = \frac{1}{2}$`, ""},
		{"a number", chinese, "42", ""},
		{"a short English word", chinese, "yes", ""},
		{"names in another script", english, english + " The Russian name is Лиса and the Chinese one 狐狸.", ""},
		{"too little to tell", "hi", chinese, ""},
		{"half of it Chinese", english, english[:120] + chinese + chinese, ReasonLanguage},
		{"a third of it Chinese", english, english + chinese, ReasonMixed},
		{"short German", "What is it?", "Ein Fuchs.", ""},
		{"a list of names", english, "Hans, Peter, Karl-Heinz, Jürgen, Wolfgang, Sepp, Dieter, Uwe, Klaus, Günther, Helmut, Manfred, Rolf, Detlef, Horst, Bernd, Gerd, Kurt, Otto, Fritz, Willi, Heinz, Erich, Ernst, Walter, Rudi, Toni, Jupp, Berti, Lothar", ""},
		{"Greek letters of mathematics", english, "α + β = γ", ""},
	} {
		if got := filterOf(t, "language", nil).Reject(answerTo("chat", tc.prompt, tc.answer)); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	only := filterOf(t, "language", map[string]any{"languages": []any{"en", "DE"}})
	for answer, want := range map[string]string{english: "", german: "", french: ReasonLanguage, chinese: ReasonLanguage, "ok": "", code: ""} {
		if got := only.Reject(answerTo("chat", chinese, answer)); got != want {
			t.Errorf("English and German only: %q, want %q: %.40s", got, want, answer)
		}
	}
	thinks := answerTo("chat", english, english)
	thinks.Candidate.Messages[0].ReasoningContent = chat.Text(chinese)
	if got := filterOf(t, "language", nil).Reject(thinks); got != "" {
		t.Errorf("reasoning in Chinese: %q", got)
	}
	if got := filterOf(t, "language", map[string]any{"reasoning": true}).Reject(thinks); got != ReasonLanguage {
		t.Errorf("reasoning in Chinese, where it counts: %q", got)
	}
	system := answerTo("chat", english, german)
	system.Task.Prompt.System = "Always answer in German."
	if got := filterOf(t, "language", nil).Reject(system); got != "" {
		t.Errorf("the system text asks for German: %q", got)
	}
}
