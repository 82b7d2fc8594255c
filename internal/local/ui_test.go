//go:build !noembed

package local

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
)

func TestWebPageOpensToItsTokenAlone(t *testing.T) {
	s := start(t, openHome(t))
	page, err := url.Parse(s.Endpoints.UI)
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + page.Host
	token := page.Query().Get("token")

	get := func(client *http.Client, address string, change func(*http.Request)) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(r)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}

	stranger := &http.Client{}
	for _, address := range []string{base + "/", base + "/namespaces", base + "/api/v1/namespaces", base + "/?token=wrong", base + "/?token="} {
		if status, _ := get(stranger, address, nil); status != http.StatusForbidden {
			t.Errorf("GET %s without the token: %d, want 403", address, status)
		}
	}
	for _, host := range []string{"evil.example", "evil.example:" + page.Port(), "127.0.0.1", "127.0.0.1:1", "[::1]:" + page.Port()} {
		if status, _ := get(stranger, s.Endpoints.UI, func(r *http.Request) { r.Host = host }); status != http.StatusForbidden {
			t.Errorf("with the token under Host %s: %d, want 403", host, status)
		}
	}

	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	owner := &http.Client{Jar: jar}
	status, body := get(owner, s.Endpoints.UI, nil)
	if status != http.StatusOK || !strings.Contains(body, `http-equiv="refresh"`) || strings.Contains(body, token) {
		t.Fatalf("entering: %d\n%s", status, body)
	}
	if status, body = get(owner, base+"/", nil); status != http.StatusOK || !strings.Contains(body, "_app/") {
		t.Errorf("the page: %d\n%.300s", status, body)
	}
	status, body = get(owner, base+"/api/v1/namespaces/default", nil)
	var answer struct {
		NamespaceInfo struct{ Name string }
	}
	if err := json.Unmarshal([]byte(body), &answer); status != http.StatusOK || err != nil || answer.NamespaceInfo.Name != "default" {
		t.Errorf("the namespace: %d %v\n%s", status, err, body)
	}
	if status, body = get(owner, base+"/api/v1/settings", nil); status != http.StatusOK || !strings.Contains(body, `"DisableNewsFetch":true`) {
		t.Errorf("the settings: %d\n%s", status, body)
	}

	// Another local port is the same site to a browser, which sends the cookie.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/api/v1/namespaces/default/workflows/x/terminate", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "same-site")
	resp, err := owner.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a form on another port: %s, want 403", resp.Status)
	}
}

func TestWebPageCookieIsOutOfReach(t *testing.T) {
	s := start(t, openHome(t))
	resp, err := http.Get(strings.Replace(s.Endpoints.UI, "/?", "//evil.example/?", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(body), `url=//`) {
		t.Errorf("the entry leads to another site:\n%s", body)
	}
	cookies := resp.Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode {
		t.Errorf("cookies: %v", cookies)
	}
}

func TestNoWebPage(t *testing.T) {
	s, err := Start(t.Context(), Options{Home: openHome(t), NoUI: true})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	if s.Endpoints.UI != "" {
		t.Errorf("UI is %q", s.Endpoints.UI)
	}
}
