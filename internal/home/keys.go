package home

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
)

// Keys are the credentials of the embedded services, made at random for each
// home and kept in keys.json (mode 0600).
type Keys struct {
	AccessKey string `json:"access_key"` // of the store
	SecretKey string `json:"secret_key"`
	Token     string `json:"temporal_token"` // of the Temporal frontend
	UIToken   string `json:"ui_token"`       // of Temporal's web page
	// FlightToken is of the Arrow Flight endpoint. Homes that are older than
	// it are given one.
	FlightToken string `json:"flight_token"`
}

// Keys reads the home's credentials, and makes them at the first use. The
// caller holds the lock.
func (h *Home) Keys() (Keys, error) {
	path := h.Path("keys.json")
	text, err := os.ReadFile(path)
	if missing(err) {
		return h.newKeys(path)
	}
	if err != nil {
		return Keys{}, fmt.Errorf("read keys: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return Keys{}, fmt.Errorf("read keys: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return Keys{}, fmt.Errorf("keys in %s can be read by other users (mode %04o); remove the file to have new ones made, or chmod 600 it if you trust them still", path, info.Mode().Perm())
	}
	var k Keys
	if err := json.Unmarshal(text, &k); err != nil || k.AccessKey == "" || k.SecretKey == "" || k.Token == "" || k.UIToken == "" {
		return Keys{}, fmt.Errorf("keys in %s are damaged; remove the file to have new ones made", path)
	}
	if k.FlightToken == "" {
		k.FlightToken = randomHex(32)
		return k, h.writeKeys(path, k)
	}
	return k, nil
}

func (h *Home) newKeys(path string) (Keys, error) {
	k := Keys{
		AccessKey: "STILL" + randomHex(8),
		SecretKey: randomHex(32),
		Token:     randomHex(32),
		UIToken:   randomHex(16),

		FlightToken: randomHex(32),
	}
	if err := h.writeKeys(path, k); err != nil {
		return Keys{}, err
	}
	return k, nil
}

func (h *Home) writeKeys(path string, k Keys) error {
	text, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return fmt.Errorf("write keys: %w", err)
	}
	if err := h.WriteFile(path, append(text, '\n')); err != nil {
		return fmt.Errorf("write keys: %w", err)
	}
	return nil
}

// randomHex is 2n hex digits; crypto/rand never fails.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}
