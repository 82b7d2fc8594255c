// Package viewstest has a version with what views get wrong: reasoning, tools
// whose arguments differ, images, histories that are not trained, trajectories,
// nulls beside empty strings, other scripts, and rows that some views can't
// hold. Only tests import it.
package viewstest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

func ptr[T any](v T) *T { return &v }

// Tools are the declarations of the rows that have some, as their author wrote
// them.
const Tools = `[{"type":"function","function":{"name":"look_up","description":"Finds <b> in a table","parameters":{"type":"object","properties":{"city":{"type":"string","default":null},"days":{"type":"integer","enum":[1,7]}},"required":["city"]}}},` +
	`{"type":"function","function":{"name":"add","parameters":{"type":"object","properties":{"terms":{"type":"array","items":{"type":"number"}}}}}}]`

// Pictures are the bytes of the images, by digest.
func Pictures(t testing.TB) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for i := range 2 {
		im := image.NewRGBA(image.Rect(0, 0, 4, 3))
		im.Set(1, 1, color.RGBA{R: uint8(200 - 90*i), G: 30, B: 90, A: 255})
		var b bytes.Buffer
		if err := png.Encode(&b, im); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b.Bytes())
		out[hex.EncodeToString(sum[:])] = b.Bytes()
	}
	return out
}

func images(t testing.TB, n int) []datasets.Image {
	t.Helper()
	var out []datasets.Image
	for _, digest := range slices.Sorted(maps.Keys(Pictures(t))) {
		if len(out) == n {
			break
		}
		out = append(out, datasets.Image{Digest: digest, MediaType: "image/png", Key: "sources/" + digest + "/picture.png"})
	}
	return out
}

func user(text string) chat.Message { return chat.Message{Role: chat.RoleUser, Content: &text} }

func answer(text, reasoning string) chat.Message {
	m := chat.Message{Role: chat.RoleAssistant, Content: &text, Train: true}
	if reasoning != "" {
		m.ReasoningContent, m.ReasoningKind = &reasoning, ptr("raw")
	}
	return m
}

func calls(reasoning string, calls ...chat.ToolCall) chat.Message {
	m := chat.Message{Role: chat.RoleAssistant, ToolCalls: calls, Train: true}
	if reasoning != "" {
		m.ReasoningContent = &reasoning
	}
	return m
}

func call(id, name, arguments string) chat.ToolCall {
	return chat.ToolCall{ID: id, Type: "function", Name: name, Arguments: arguments}
}

func result(id, name, text string) chat.Message {
	return chat.Message{Role: chat.RoleTool, Content: &text, ToolCallID: &id, Name: &name}
}

func system(text string) chat.Message { return chat.Message{Role: chat.RoleSystem, Content: &text} }

func earlier(text string) chat.Message {
	return chat.Message{Role: chat.RoleAssistant, Content: &text}
}

// Train are the rows of train, sorted by prompt.
func Train(t testing.TB) []datasets.Row {
	rows := []datasets.Row{
		row("plain", "high", system("Отвечай кратко."), user("7×3 = ? 数学 العربية \U0001F600 e\u0301 \u2028 \"q\" \\ <b>"),
			answer("21 — двадцать один", "семь, семь, семь\nи ещё раз")),
		row("empty", "default", user(""), answer("", "")),
		row("tools", "max", system("Use the tools."), user("Bern and 0.1+0.2?"),
			calls("two calls are needed", call("c1", "look_up", `{"city": "Bern", "days": null}`), call("c2", "add", `{"terms":[0.1,0.2,9007199254740993]}`)),
			result("c1", "look_up", `{"t": -3}`), result("c2", "add", "0.3"),
			answer("−3 °C, and 0.3", "done")),
		row("picture", "high", user("What is this?"), answer("A dot.", "I look")),
		row("history", "high", user("q1"), earlier("not a teacher's"), user("q2"), answer("a2", "as before")),
		row("trajectory", "max", user("first"), answer("one", "r1"), user("then"), answer("two", "r2")),
		row("bad-arguments", "high", user("call it"), calls("", call("c1", "look_up", `{"city": `)), result("c1", "look_up", "error"), answer("it failed", "")),
		row("two-users", "high", user("a"), user("b"), answer("ab", "")),
		row("tagged", "high", user("What is <think>?"), answer("A tag: <think></think>", "the tag <think> is asked for")),
		row("text-and-call", "high", user("Zürich?"), spoken("Let me see.", "the table has it", call("c1", "look_up", `{"city":"Zürich"}`)), result("c1", "look_up", "5"), answer("5 °C", "")),
		row("developer", "high", user("hi"), chat.Message{Role: "developer", Content: ptr("be kind")}, answer("hello", "")),
	}
	for i := range rows {
		switch rows[i].SampleID {
		case "tools", "bad-arguments", "text-and-call":
			rows[i].Tools = ptr(Tools)
		case "picture":
			rows[i].Images = images(t, 1)
		}
	}
	parquetio.Sorted(rows, func(r *datasets.Row) string { return r.PromptID })
	return rows
}

func spoken(text, reasoning string, c chat.ToolCall) chat.Message {
	m := calls(reasoning, c)
	m.Content = &text
	return m
}

func row(name, effort string, messages ...chat.Message) datasets.Row {
	return datasets.Row{
		TaskID: name + "/math/" + effort, PromptID: name, SampleID: name, Domain: "math", Effort: effort,
		Teacher: "k3", TeacherModel: "kimi-k3", Messages: messages, Verdict: ptr("pass"),
	}
}

// Test are the rows of test.
func Test() []datasets.Row {
	r := row("tested", "high", user("1+1"), answer("2", "one and one"))
	r.Domain, r.TaskID = "arith", "tested/arith/high"
	return []datasets.Row{r}
}

// Pairs are the preference pairs of a split.
func Pairs(t testing.TB, split string) []datasets.Pair {
	if split == "test" {
		return []datasets.Pair{pair("p3", answer("yes", "r"), answer("no", ""))}
	}
	shown := pair("p2", answer("A dot.", "one point"), answer("A line.", ""))
	shown.Images = images(t, 1)
	return []datasets.Pair{
		pair("p1", calls("r", call("c", "look_up", `{"city":"Genève"}`)), answer("I can't.", "")),
		shown,
	}
}

func pair(name string, chosen, rejected chat.Message) datasets.Pair {
	return datasets.Pair{
		TaskID: name + "/math/high", PromptID: name, Domain: "math", Effort: "high",
		Prompt: []chat.Message{system("s"), user("вопрос " + name)}, Chosen: []chat.Message{chosen}, Rejected: []chat.Message{rejected},
		ChosenTeacher: "k3", RejectedTeacher: "r1", Margin: ptr(0.5), CrossTeacher: true,
	}
}

// Prompts are the tasks of the version.
func Prompts(t testing.TB) []datasets.PromptRow {
	prompt := func(name, split, status string, m ...chat.Message) datasets.PromptRow {
		return datasets.PromptRow{
			TaskID: name + "/math/high", PromptID: name, Domain: "math", Effort: "high", Split: split, Status: status,
			Route: []string{"k3"}, RouteReason: "all", Messages: m, Source: "p.jsonl:1", Copies: 1,
		}
	}
	out := []datasets.PromptRow{
		prompt("gold", "train", datasets.StatusClean, system("s"), user("7×3?")),
		prompt("none", "train", datasets.StatusClean, user("a poem")),
		prompt("picture", "train", datasets.StatusClean, user("What is this?")),
		prompt("stolen", "train", datasets.StatusDirty, user("from a test")),
		prompt("tested", "test", datasets.StatusClean, user("1+1")),
		prompt("tests", "train", datasets.StatusClean, user("write f")),
	}
	out[0].Gold, out[4].Gold, out[2].Gold = ptr("21"), ptr("2"), ptr("")
	out[5].Tests = ptr(`["assert f(1) == 2"]`)
	out[2].Images = images(t, 1)
	return out
}

// Publish publishes the version in b and gives its catalog, itself and its
// manifest.
func Publish(t testing.TB, b objstore.Bucket) (*catalog.Catalog, catalog.Version, *catalog.Manifest) {
	t.Helper()
	ctx := context.Background()
	c := catalog.Open(b)
	for digest, data := range Pictures(t) {
		if _, err := objstore.PutBytes(ctx, b, "sources/"+digest+"/picture.png", data, objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	m := catalog.Manifest{Dataset: "maths", BuildID: "20261130T130000Z-00000001", CreatedAt: time.Date(2026, 11, 30, 13, 0, 0, 0, time.UTC)}
	for _, id := range []string{"k3", "r1"} {
		m.Teachers = append(m.Teachers, catalog.ManifestTeacher{ID: id, Model: id, Terms: catalog.Terms{Licence: "MIT", Training: catalog.TrainingAllowed}})
	}
	train := Train(t)
	half := len(train) / 2
	stage(t, c, &m, datasets.TableTrain, "train", 0, train[:half])
	stage(t, c, &m, datasets.TableTrain, "train", 1, train[half:])
	stage(t, c, &m, datasets.TableTest, "test", 0, Test())
	stage(t, c, &m, datasets.TablePairs, "train", 0, Pairs(t, "train"))
	stage(t, c, &m, datasets.TablePairs, "test", 0, Pairs(t, "test"))
	stage(t, c, &m, datasets.TablePrompts, "all", 0, Prompts(t))
	v, err := c.Publish(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	v, stored, err := c.Resolve(ctx, v.Ref())
	if err != nil {
		t.Fatal(err)
	}
	return c, v, stored
}

func stage[T any](t testing.TB, c *catalog.Catalog, m *catalog.Manifest, table, split string, seq int, rows []T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), fmt.Sprintf("%s-%s-%d", table, split, seq))
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := parquetio.NewWriter[T](f, parquetio.Options{SortedBy: "prompt_id"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(rows), w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	ref, err := c.Stage(context.Background(), m.Dataset, m.BuildID, table, split, seq, path)
	if err != nil {
		t.Fatal(err)
	}
	m.Files = append(m.Files, ref)
}
