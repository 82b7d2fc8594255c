//go:build chromium

package report

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A tab is a page in Chromium that a test drives by the DevTools protocol, over
// a pipe: no port, and no other program.
type tab struct {
	t       *testing.T
	in      io.Writer
	session string

	mu      sync.Mutex
	last    int
	waiting map[int]chan cdpMessage
	console []string
	loaded  chan struct{}
}

type cdpMessage struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// openTab starts Chromium with an empty page of so many pixels.
func openTab(t *testing.T, width, height int) *tab {
	t.Helper()
	chromium := findChromium(t)
	fromTest, toChromium, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromChromium, toTest, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	cmd := exec.CommandContext(ctx, chromium,
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe",
		"--user-data-dir="+filepath.Join(t.TempDir(), "profile"), fmt.Sprintf("--window-size=%d,%d", width, height), "about:blank")
	cmd.ExtraFiles = []*os.File{fromTest, toTest} // 3 and 4, as the pipe's protocol has it
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	fromTest.Close()
	toTest.Close()
	b := &tab{t: t, in: toChromium, waiting: map[int]chan cdpMessage{}, loaded: make(chan struct{}, 16)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.read(fromChromium)
	}()
	t.Cleanup(func() {
		toChromium.Close() // Chromium ends with its pipe
		cancel()
		_ = cmd.Wait()
		fromChromium.Close()
		<-read
		if t.Failed() {
			t.Logf("Chromium said: %.2000s", log.String())
		}
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	b.size(width, height)
	return b
}

// read hands out what comes from Chromium until the pipe ends.
func (b *tab) read(from io.Reader) {
	r := bufio.NewReader(from)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			for id, c := range b.waiting {
				close(c)
				delete(b.waiting, id)
			}
			b.waiting = nil
			b.mu.Unlock()
			return
		}
		var m cdpMessage
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		switch {
		case m.ID != 0:
			if c := b.waiting[m.ID]; c != nil {
				delete(b.waiting, m.ID)
				c <- m
			}
		case m.Method == "Page.loadEventFired":
			select {
			case b.loaded <- struct{}{}:
			default:
			}
		case slices.Contains([]string{"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"}, m.Method):
			b.console = append(b.console, m.Method+" "+string(m.Params))
		}
		b.mu.Unlock()
	}
}

// call asks Chromium for something, and waits for it.
func (b *tab) call(method string, params, result any) {
	b.t.Helper()
	if err := b.try(method, params, result); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
}

func (b *tab) try(method string, params, result any) error {
	m := map[string]any{"method": method}
	if params != nil {
		m["params"] = params
	}
	c := make(chan cdpMessage, 1)
	b.mu.Lock()
	if b.waiting == nil {
		b.mu.Unlock()
		return errors.New("chromium is gone")
	}
	b.last++
	m["id"] = b.last
	b.waiting[b.last] = c
	if b.session != "" {
		m["sessionId"] = b.session
	}
	text, err := json.Marshal(m)
	if err == nil {
		_, err = b.in.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	reply, ok := <-c
	switch {
	case !ok:
		return errors.New("chromium ended")
	case reply.Error != nil:
		return errors.New(reply.Error.Message)
	case result != nil:
		return json.Unmarshal(reply.Result, result)
	}
	return nil
}

// show opens a page, and waits until it is loaded.
func (b *tab) show(page string) {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "report.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		b.t.Fatal(err)
	}
	for len(b.loaded) > 0 {
		<-b.loaded
	}
	b.call("Page.navigate", map[string]any{"url": "file://" + file}, nil)
	select {
	case <-b.loaded:
	case <-b.t.Context().Done():
		b.t.Fatal("the page never loads")
	}
}

func (b *tab) size(width, height int) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
}

// eval gives the value of a JavaScript expression; of a promise, once it is
// there.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	var out struct {
		Result struct {
			Value T `json:"value"`
		} `json:"result"`
		ExceptionDetails *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &out)
	if out.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s %s", expression, out.ExceptionDetails.Text, out.ExceptionDetails.Exception.Description)
	}
	return out.Result.Value
}

// keys are what Chromium needs to know of a key beside its name.
var keys = map[string]struct {
	code int
	text string
}{"Tab": {9, ""}, "Enter": {13, "\r"}, " ": {32, " "}, "Escape": {27, ""}, "ArrowDown": {40, ""}, "End": {35, ""}}

// press presses and releases a key; with shift where it is "Shift+…".
func (b *tab) press(key string) {
	b.t.Helper()
	shift := 0
	if rest, ok := strings.CutPrefix(key, "Shift+"); ok {
		key, shift = rest, 8
	}
	k, known := keys[key]
	if !known {
		b.t.Fatalf("key %q", key)
	}
	code := key
	if key == " " {
		code = "Space"
	}
	for _, kind := range []string{"keyDown", "keyUp"} {
		event := map[string]any{"type": kind, "key": key, "code": code, "windowsVirtualKeyCode": k.code, "modifiers": shift}
		if kind == "keyDown" && k.text != "" {
			event["text"] = k.text
		}
		b.call("Input.dispatchKeyEvent", event, nil)
	}
}

// said is what the console has so far.
func (b *tab) said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.console)
}

// picture writes the page, or as much of it as a picture takes, as a PNG.
func (b *tab) picture(file string) {
	b.t.Helper()
	var shot struct{ Data string }
	tall := min(12_000, eval[float64](b, "document.documentElement.scrollHeight"))
	wide := eval[float64](b, "document.documentElement.scrollWidth")
	clip := map[string]any{"x": 0, "y": 0, "width": wide, "height": tall, "scale": 1}
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true, "clip": clip}, &shot)
	b.write(file, shot.Data)
}

// print writes the page as it is printed, a PDF.
func (b *tab) print(file string) {
	b.t.Helper()
	var pdf struct{ Data string }
	b.call("Page.printToPDF", map[string]any{"printBackground": false}, &pdf)
	b.write(file, pdf.Data)
}

func (b *tab) write(file, data string) {
	b.t.Helper()
	text, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		b.t.Fatal(err)
	}
}
