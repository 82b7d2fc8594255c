//go:build !noembed

package local

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/temporalio/ui-server/v2/server/api"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/route"
	"github.com/temporalio/ui-server/v2/ui"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
)

// webUI is Temporal's web page behind our own door.
type webUI struct {
	url    string // with the token
	server *http.Server
	conn   *grpc.ClientConn
	ended  chan struct{}
}

// startUI serves the page on loopback for the server at the given frontend.
func startUI(frontend, token, uiToken string, preferred int, log *slog.Logger) (*webUI, error) {
	l, err := listenLoopback(preferred)
	if err != nil {
		return nil, fmt.Errorf("start the web page: %w", err)
	}
	conn, err := dialFrontend(frontend, token)
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("start the web page: %w", err)
	}
	pages, err := uiPages(frontend, conn)
	if err != nil {
		l.Close()
		conn.Close()
		return nil, fmt.Errorf("start the web page: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	u := &webUI{
		url:  "http://" + l.Addr().String() + "/?" + url.Values{"token": {uiToken}}.Encode(),
		conn: conn,
		server: &http.Server{
			Handler:           newDoor(port, uiToken, pages),
			ReadHeaderTimeout: 10 * time.Second,
			IdleTimeout:       2 * time.Minute,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
		ended: make(chan struct{}),
	}
	go func() {
		defer close(u.ended)
		_ = u.server.Serve(l) // ends by stop; a page that is gone harms no build
	}()
	return u, nil
}

func (u *webUI) stop() error {
	err := u.server.Close()
	<-u.ended
	return errors.Join(err, u.conn.Close())
}

// uiPages are the page's own routes, put together without its listener and its
// look-ups on the internet. Calls to Temporal go out over conn, which carries
// the token.
func uiPages(frontend string, conn *grpc.ClientConn) (http.Handler, error) {
	cfg, err := uiconfig.NewConfigProviderWithRefresh(&uiconfig.Config{
		TemporalGRPCAddress: frontend,
		EnableUI:            true,
		DefaultNamespace:    Namespace,
		DisableNewsFetch:    true,
		HideLogs:            true,
	})
	if err != nil {
		return nil, err
	}
	assets, err := ui.Assets()
	if err != nil {
		return nil, err
	}
	if assets, err = fs.Sub(assets, "local"); err != nil {
		return nil, err
	}
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.Use(middleware.Recover(), middleware.Gzip(), middleware.Secure())
	route.SetHealthRoute(e)
	calls := e.Group("/api/v1")
	calls.GET("/settings", api.GetSettings(cfg))
	calls.GET("/ui-extensions", api.GetUIExtensions(cfg, api.TemporalAccessCheck(conn, nil)))
	calls.GET(api.WorkflowRawHistoryUrl, api.WorkflowRawHistoryHandler(workflowservice.NewWorkflowServiceClient(conn)))
	calls.Match([]string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		"/*", api.TemporalAPIHandler(cfg, nil, conn))
	if err := route.SetUIRoutes(e, "", assets, cfg); err != nil {
		return nil, err
	}
	route.SetRenderRoute(e, "/")
	return e, nil
}

// newDoor lets in who knows the token. Other users of the machine can reach
// the port, and so can any web page in the user's browser: the Host check
// stops names that resolve to loopback, the cross-origin check stops forms and
// scripts of other local ports, which browsers count as the same site.
func newDoor(port int, token string, pages http.Handler) http.Handler {
	hosts := []string{
		net.JoinHostPort(loopback, strconv.Itoa(port)),
		net.JoinHostPort("localhost", strconv.Itoa(port)),
	}
	cookie := "stillhouse-" + strconv.Itoa(port) // cookies don't tell ports apart
	authorized := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := r.URL.Query().Get("token")
		if given != "" && sameToken(given, token) {
			letIn(w, r, cookie, token)
			return
		}
		if c, err := r.Cookie(cookie); err != nil || !sameToken(c.Value, token) {
			http.Error(w, "This page needs its token: open the address that `stillhouse env` prints.", http.StatusForbidden)
			return
		}
		r.Header.Del("Authorization")
		r.Header.Del("Authorization-Extras")
		pages.ServeHTTP(w, r)
	})
	guarded := http.NewCrossOriginProtection().Handler(authorized)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.EqualFold(r.Host, hosts[0]) && !strings.EqualFold(r.Host, hosts[1]) {
			http.Error(w, "This page answers to 127.0.0.1 and localhost alone.", http.StatusForbidden)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

func sameToken(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// entry goes on to the page from a document of our own origin: browsers keep
// a strict cookie back on a redirect that another site's link began.
var entry = template.Must(template.New("entry").Parse(
	`<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={{.}}"><title>Temporal</title><a href="{{.}}">Temporal</a>`))

func letIn(w http.ResponseWriter, r *http.Request, cookie, token string) {
	http.SetCookie(w, &http.Cookie{
		Name: cookie, Value: token, Path: "/",
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	query := r.URL.Query()
	query.Del("token")
	target := url.URL{Path: "/" + strings.TrimLeft(r.URL.Path, `/\`), RawQuery: query.Encode()}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cache-Control", "no-store")
	_ = entry.Execute(w, target.String())
}

// stopWithin ends a wait that knows no context.
func stopWithin(ctx context.Context, stop func() error) error {
	done := make(chan error, 1)
	go func() { done <- stop() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
