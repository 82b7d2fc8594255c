package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

// A collector of logs finds one object in every line, whoever wrote it.
func TestEveryLineOfALogIsAnObject(t *testing.T) {
	a, _, talk := newApp(t, nil)
	a.logFlag = logJSON
	if err := a.checkLogFormat(); err != nil {
		t.Fatal(err)
	}
	a.say("Temporal  127.0.0.1:7233\nhome      /var/lib/\x1b[31mstillhouse")
	a.warn("warning: without --policy, …")
	a.log().Warn("open builds were not listed", "error", "lost\nconnection")
	a.log().Debug("nobody asked for this")
	want := []struct{ level, msg string }{
		{"INFO", "Temporal  127.0.0.1:7233"}, {"INFO", "home      /var/lib/\uFFFD[31mstillhouse"},
		{"WARN", "without --policy, …"}, {"WARN", "open builds were not listed"},
	}
	lines := strings.Split(strings.TrimSuffix(talk.String(), "\n"), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d: %q", len(lines), len(want), lines)
	}
	for i, line := range lines {
		var got struct{ Time, Level, Msg string }
		if err := json.Unmarshal([]byte(line), &got); err != nil || got.Time == "" || got.Level != want[i].level || got.Msg != want[i].msg {
			t.Errorf("line %d: %s (%v), want %+v", i, line, err, want[i])
		}
	}
}

func TestLogFormatIsOneOfTwo(t *testing.T) {
	for _, c := range []struct{ variable, flag, fault string }{
		{"", "", ""}, {"json", "", ""}, {"json", "text", ""}, {"", "json", ""}, {"", "xml", "want text or json"}, {"yaml", "", "want text or json"},
	} {
		a, _, talk := newApp(t, map[string]string{"STILLHOUSE_LOG_FORMAT": c.variable})
		args := []string{"worker"}
		if c.flag != "" {
			args = append(args, "--log-format", c.flag)
		}
		// Without a Temporal server the worker ends right after its flags.
		if code := a.run(t.Context(), args); code != exitUsage {
			t.Errorf("%+v: exit code %d", c, code)
		}
		want := "worker needs a Temporal server"
		if c.fault != "" {
			want = c.fault
		}
		if !strings.Contains(talk.String(), want) {
			t.Errorf("%+v: %q, want %q", c, talk.String(), want)
		}
		form := c.flag
		if form == "" {
			form = c.variable
		}
		if isJSON := strings.HasPrefix(talk.String(), "{"); isJSON != (form == logJSON) {
			t.Errorf("%+v: %q", c, talk.String())
		}
	}
	// The variable is of what runs for long: people read the other commands.
	a, _, talk := newApp(t, map[string]string{"STILLHOUSE_LOG_FORMAT": "json"})
	if code := a.run(t.Context(), []string{"plan"}); code != exitUsage || !strings.HasPrefix(talk.String(), "stillhouse: ") {
		t.Errorf("plan: %d, %q", code, talk.String())
	}
}
