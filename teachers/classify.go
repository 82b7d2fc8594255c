package teachers

import (
	"net/http"
	"strings"
)

// errorInBody reads what an endpoint says went wrong, in any of the forms that
// are about: {"error": {"message", "type", "code"}}, {"error": "text"}, the flat
// {"object": "error", "message", "code"} of vLLM and SGLang, FastAPI's
// {"detail": …}, and plain text. The class is that of an error inside a 200.
func errorInBody(body []byte) *Error {
	said := readErrorBody(body)
	e := &Error{Class: ClassServer, Excerpt: said.message}
	switch status := said.status; {
	case status >= 400:
		e.Class = classOf(int(status), said)
	default:
		e.Class = classOf(http.StatusInternalServerError, said)
	}
	return e
}

// errorWords is what an error body says.
type errorWords struct {
	message, kind, code string
	status              int64 // code, where it is a number
}

func readErrorBody(body []byte) errorWords {
	var w errorWords
	end, err := skipValue(body, 0, 0)
	if err != nil || end == 0 || body[0] != '{' {
		w.message = string(body)
		if isString(body) && err == nil {
			w.message = textOf(body)
		}
		return w
	}
	w.read(body, 0)
	if w.message == "" {
		w.message = string(body)
	}
	return w
}

func (w *errorWords) read(object []byte, depth int) {
	c := walk(object)
	for c.next() {
		switch string(c.name) {
		case "message", "msg":
			if isString(c.value) {
				w.message = textOf(c.value)
			}
		case "type", "status":
			if isString(c.value) {
				w.kind = textOf(c.value)
			}
		case "code":
			w.code = strings.Trim(string(c.value), `"`)
			if n, ok := wholeNumber(c.value); ok && n < 1000 {
				w.status = n
			}
		case "error":
			if depth == 0 && len(c.value) > 0 && c.value[0] == '{' {
				w.read(c.value, depth+1)
			} else if isString(c.value) && len(c.value) > 2 {
				w.message = textOf(c.value)
			}
		case "detail":
			if isString(c.value) {
				w.message = textOf(c.value)
			} else if w.message == "" {
				w.message = string(c.value)
			}
		}
	}
}

// classOf maps status and words to a class: the status first, then what is
// said where one status means several things.
func classOf(status int, w errorWords) string {
	words := strings.ToLower(w.message + " " + w.kind + " " + w.code)
	has := func(list ...string) bool {
		for _, s := range list {
			if strings.Contains(words, s) {
				return true
			}
		}
		return false
	}
	quota := has("insufficient_quota", "exceeded your current quota", "credit balance", "insufficient balance",
		"insufficient_balance", "billing details", "billing_hard_limit", "exceeded_current_quota", "payment required", "insufficient credits", "billing_error")
	switch {
	case status == http.StatusPaymentRequired, quota && status >= 400 && status < 500:
		return ClassQuota
	case status == http.StatusUnauthorized:
		return ClassAuth
	case status == http.StatusForbidden:
		if has("moderation", "flagged", "content policy", "content_filter") {
			return ClassBadRequest
		}
		return ClassAuth
	case status == http.StatusNotFound && has("no endpoints found"):
		return ClassBadRequest // a router that has no provider for this kind of request
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status == http.StatusGone:
		return ClassNotFound
	case status == http.StatusRequestTimeout:
		return ClassTimeout
	case status == http.StatusConflict, status == http.StatusTooEarly:
		return ClassServer
	case status == http.StatusTooManyRequests:
		return ClassRateLimited
	case status == http.StatusServiceUnavailable, status == statusOverloaded, has("overloaded_error"):
		return ClassOverloaded
	case status == http.StatusRequestEntityTooLarge:
		return ClassContextOverflow
	case status >= 400 && status < 500:
		if has("model_not_found", "does not exist", "model not found", "no such model", "unknown model") && has("model") {
			return ClassNotFound
		}
		if has("context length", "context_length", "context window", "maximum context", "token limit", "too many tokens",
			"token length too long", "prompt is too long", "input is too long", "exceeds the model", "exceed_context_size", "exceed context limit", "exceeded model token limit") {
			return ClassContextOverflow
		}
		return ClassBadRequest
	case has("rate_limit_exceeded", "rate_limit_error", "too many requests"):
		return ClassRateLimited
	case has("invalid_api_key", "authentication_error"):
		return ClassAuth
	case quota:
		return ClassQuota
	}
	return ClassServer
}

// statusOverloaded is Anthropic's, also used by others.
const statusOverloaded = 529
