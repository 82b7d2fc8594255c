package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// HandOffInput starts a HandOff of a published version to a trainer.
type HandOffInput struct {
	Ref      string   `json:"ref"` // dataset@version, resolved
	Trainer  string   `json:"trainer"`
	Launcher string   `json:"launcher"`
	Command  []string `json:"command"`
	Model    string   `json:"model"`
	Attempt  int      `json:"attempt"`
	Env      []string `json:"env,omitempty"` // names only
	Options  string   `json:"options,omitempty"`
	// Timeout is how long the training may take, in seconds; 0: as long as is
	// possible at all.
	Timeout int64 `json:"timeout_s,omitempty"`
	// Carry is what a run of the workflow hands to its next one.
	Carry *HandOffPrepared `json:"carry,omitempty"`
}

// HandOffRequest asks what a recipe hands over of what its build published.
type HandOffRequest struct {
	BuildRef
	Version int64 `json:"version"`
}

// HandOffStart is the hand-off that a build starts, and the id of its workflow.
type HandOffStart struct {
	HandOffInput
	ID string `json:"id"`
}

// HandOffID is the id of a hand-off's workflow. It is the same for the same
// hand-off, so that asking again finds the one that runs. Workflows are given it:
// a field that a later release adds would give another.
func HandOffID(in HandOffInput) (string, error) {
	text, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return HandOffPrefix(in.Ref) + hex.EncodeToString(sum[:])[:16], nil
}

// HandOffPrefix begins the ids of a version's hand-offs.
func HandOffPrefix(ref string) string { return "handoff/" + ref + "/" }

// HandOffPrepared is a rendered bundle in the store, and how far its launch is.
type HandOffPrepared struct {
	LaunchID string `json:"launch_id"`
	Prefix   string `json:"prefix"`
	Dir      string `json:"dir,omitempty"` // on the worker that launches
	// Where is the launcher's reference to the launch.
	Where string `json:"where,omitempty"`
	// Until is when the launch shall be over.
	Until time.Time `json:"until,omitzero"`
	// Cancel tells that the launch shall end, since CancelledAt.
	Cancel      bool      `json:"cancel,omitempty"`
	CancelledAt time.Time `json:"cancelled_at,omitzero"`
}

// HandOffLaunched is a launch that was submitted.
type HandOffLaunched struct {
	Where  string `json:"where,omitempty"`
	Remote bool   `json:"remote,omitempty"` // it is followed by timers
}

// HandOffOutput is the end of a hand-off.
type HandOffOutput struct {
	LaunchID string `json:"launch_id"`
	State    string `json:"state"`
	ExitCode int    `json:"exit_code"`
	Record   string `json:"record"`           // key of what the launcher knows
	Result   string `json:"result,omitempty"` // key of what the launch said of itself
	Text     string `json:"text,omitempty"`
}
