//go:build !noembed

package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/stillhouse-data/stillhouse/internal/home"
)

const loopback = "127.0.0.1"

// ports are where the services that users point other tools at listened the
// last time. They stay the same as long as nobody else takes them.
type ports struct {
	Temporal int `json:"temporal"`
	S3       int `json:"s3"`
	UI       int `json:"ui"`
}

func portsPath(h *home.Home) string { return h.Path("run", "ports.json") }

// lastPorts is all zero where nothing is remembered: any free port then.
func lastPorts(h *home.Home) ports {
	var p ports
	if text, err := os.ReadFile(portsPath(h)); err == nil {
		_ = json.Unmarshal(text, &p) // damaged: any free port
	}
	return p
}

func rememberPorts(h *home.Home, p ports) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return h.WriteFile(portsPath(h), append(text, '\n'))
}

// listenLoopback listens on the preferred port if it is free, else on any.
func listenLoopback(preferred int) (net.Listener, error) {
	if preferred > 0 && preferred < 1<<16 {
		if l, err := net.Listen("tcp4", net.JoinHostPort(loopback, strconv.Itoa(preferred))); err == nil {
			return l, nil
		}
	}
	return net.Listen("tcp4", net.JoinHostPort(loopback, "0"))
}

// reservePort finds a free port for a server that insists on opening it
// itself. One connection is accepted and closed from the server's side first:
// its TIME_WAIT keeps the kernel from handing the port to anybody who asks for
// any port, while a listener that names it still gets it.
func reservePort(preferred int) (port int, err error) {
	l, err := listenLoopback(preferred)
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	client, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	if err := server.Close(); err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, nil
}
