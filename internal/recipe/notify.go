package recipe

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// events of a build's end that somebody may be told of.
var events = []string{"success", "gate", "budget", "teacher", "failure"}

// A Notify says who is told how a build ended. No message holds a prompt or an
// answer.
type Notify struct {
	// URL that a JSON message is posted to, over https or to this machine.
	Webhook string `yaml:"webhook"`
	// Variable with the key that signs messages to the webhook (HMAC-SHA256).
	KeyEnv string `yaml:"key_env"`
	// File with that key.
	KeyFile string `yaml:"key_file"`
	// Program and arguments that gets the message as JSON on its standard input.
	Command []string `yaml:"command"`
	// Events that are told: success, gate, budget, teacher, failure; all where absent.
	On []string `yaml:"on"`
}

// Wants tells whether an event is told.
func (n *Notify) Wants(event string) bool { return len(n.On) == 0 || slices.Contains(n.On, event) }

const (
	maxNotify      = 16
	maxNotifyWords = 64
)

// notify checks who is told.
func (c *checker) notify() {
	if len(c.r.Notify) > maxNotify {
		c.fault("notify", fmt.Sprintf("has %d entries, want at most %d", len(c.r.Notify), maxNotify), "let one of them tell the others")
	}
	for i := range c.r.Notify {
		n, path := &c.r.Notify[i], fmt.Sprintf("notify[%d]", i)
		switch {
		case (n.Webhook == "") == (len(n.Command) == 0):
			c.fault(path, "wants either webhook or command", "write webhook: https://… or command: [program, argument]")
		case n.Webhook != "":
			c.webhook(n, path)
		case n.KeyEnv != "" || n.KeyFile != "":
			c.fault(path, "has a key, which only signs messages to a webhook", "remove it")
		case len(n.Command) > maxNotifyWords || n.Command[0] == "" || slices.ContainsFunc(n.Command, func(w string) bool { return len(w) > 4096 || strings.ContainsRune(w, 0) }):
			c.fault(path+".command", "is no program with its arguments", fmt.Sprintf("write at most %d words, the first of which is the program", maxNotifyWords))
		}
		for j, event := range n.On {
			if !slices.Contains(events, event) {
				c.fault(fmt.Sprintf("%s.on[%d]", path, j), quote(event)+" is none of "+strings.Join(events, ", "), didYouMean(event, events))
			}
		}
	}
}

func (c *checker) webhook(n *Notify, path string) {
	u, err := url.Parse(n.Webhook)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.Fragment != "":
		c.fault(path+".webhook", "is no address", "write https://host/path")
	case u.User != nil:
		c.fault(path+".webhook", "holds a password", "recipes hold no secrets: sign the messages with key_env instead")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		c.fault(path+".webhook", "would send messages in the clear", "use https")
	}
	if n.KeyEnv != "" && n.KeyFile != "" {
		c.fault(path+".key_file", "stands beside key_env", "a key comes from one place: keep one of the two")
	}
	if n.KeyEnv != "" && (!envName.MatchString(n.KeyEnv) || reservedEnv(n.KeyEnv)) {
		c.fault(path+".key_env", "is no name of a variable of its own", "write the name of the variable that holds the key, never the key")
	}
	if f := n.KeyFile; f != "" && (!filepath.IsAbs(f) && !strings.HasPrefix(f, "~/") || len(f) > 4096 || strings.ContainsFunc(f, unicode.IsControl)) {
		c.fault(path+".key_file", "is no absolute path", "write where the file lies on the worker, such as /run/secrets/webhook; never the key")
	}
}
