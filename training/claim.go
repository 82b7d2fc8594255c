package training

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// ErrClaimed: the launch belongs to another launcher, which has started it or
// is about to.
var ErrClaimed = errors.New("launch is claimed by another launcher")

// A claim is claim.json.
type claim struct {
	APIVersion string `json:"apiVersion"`
	LaunchID   string `json:"launch_id"`
	Owner      string `json:"owner"`
}

// maxClaimBytes bounds claim.json when it is read back.
const maxClaimBytes = 4 << 10

// Claim makes owner the only one that may start a launch, by creating
// handoff/<launch id>/claim.json where it does not exist. Owner is a random
// token that the launcher keeps, so that claiming again after a lost answer
// finds its own claim and succeeds. Another owner's claim is [ErrClaimed].
func Claim(ctx context.Context, bucket objstore.Bucket, launchID, owner string) error {
	if !ValidLaunchID(launchID) {
		return fmt.Errorf("claim launch: %q is no launch id", launchID)
	}
	if owner == "" {
		return fmt.Errorf("claim launch %s: no owner given", launchID)
	}
	key := Key(launchID, ClaimFile)
	data, err := json.Marshal(claim{APIVersion: APIVersion, LaunchID: launchID, Owner: owner})
	if err != nil {
		return fmt.Errorf("claim launch %s: %w", launchID, err)
	}
	opt := objstore.PutOptions{IfNoneMatch: true, ContentType: "application/json"}
	_, err = bucket.Put(ctx, key, bytes.NewReader(data), int64(len(data)), opt)
	if err == nil {
		return nil
	}
	if !errors.Is(err, objstore.ErrPrecondition) {
		return fmt.Errorf("claim launch %s: %w", launchID, err)
	}
	// The retry of a write may be refused because of its own first success.
	holder, err := claimOf(ctx, bucket, key)
	if err != nil {
		return fmt.Errorf("claim launch %s: %w", launchID, err)
	}
	if holder != owner {
		return fmt.Errorf("claim launch %s: %w; %s in %s says by whom", launchID, ErrClaimed, key, bucket)
	}
	return nil
}

func claimOf(ctx context.Context, bucket objstore.Bucket, key string) (string, error) {
	body, _, err := bucket.Get(ctx, key)
	if err != nil {
		return "", err
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, maxClaimBytes))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", key, err)
	}
	var c claim
	if err := json.Unmarshal(data, &c); err != nil {
		return "", nil // somebody's claim all the same, and not ours
	}
	return c.Owner, nil
}
