package activities

import (
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/teachers"
)

// A worker outlives recipes: what a recipe says of its endpoint holds from its
// next build on, and the same is one client for all builds.
func TestClientsAreMadeOfAllThatTheRecipeSays(t *testing.T) {
	w := newWorld(t)
	made := func(more string) (client, service any) {
		t.Helper()
		text := askRecipe("a", "http://127.0.0.1:9/v1", more)
		if strings.Contains(more, "folder") {
			text = strings.Replace(text, "base_url: http://127.0.0.1:9/v1", "identity: mine", 1)
		}
		rt, err := newRuntime(parsed(t, text), &Sources{})
		if err != nil {
			t.Fatal(err)
		}
		one := rt.teachers["t"]
		if strings.Contains(more, "batch") {
			if service, err = w.a.service(one); err != nil {
				t.Fatal(err)
			}
		}
		if client, err = w.a.client(one); err != nil {
			t.Fatal(err)
		}
		return client, service
	}
	batch := ", api: " + teachers.APIOpenAIBatch
	for _, tc := range [][2]string{
		{"", ", profile: {base: vllm, stream_usage: false}"},
		{", price: {input: 1, output: 1}", ", price: {input: 1, output: 1, gpu_hour: 2}"},
		{batch, batch + ", profile: {base: openai, seed: false}"},
		{batch + ", batch: {folder: x}", batch + ", batch: {folder: x, settle: 3m}"},
	} {
		client, service := made(tc[0])
		if again, same := made(tc[0]); again != client || same != service {
			t.Errorf("%s: another one for the same recipe", tc[0])
		}
		other, another := made(tc[1])
		if strings.Contains(tc[0], "batch") && another == service || !strings.Contains(tc[0], "batch") && other == client {
			t.Errorf("%s: the one of %s", tc[1], tc[0])
		}
	}
}
