package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

const (
	// attributesLimit bounds the wait for a cluster to know new search attributes.
	attributesLimit = time.Minute
	attributesPoll  = 200 * time.Millisecond
)

// searchAttributes are what our workflows are found by; all are keywords. A
// server that does not know them refuses every workflow that sets one, again
// and again, and the build would hang without a word.
var searchAttributes = []string{wire.AttributeDataset, wire.AttributeTeacher, wire.AttributePhase}

// needAttributes makes sure that a Temporal server of the user's knows our
// search attributes, before anything is started there. The embedded server
// has them from its start.
func (s *session) needAttributes(ctx context.Context) error {
	if !s.remote {
		return nil
	}
	operator := s.temporal.OperatorService()
	known, err := operator.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: s.namespace()})
	if err != nil {
		return &codedError{exitUnreachable, fmt.Sprintf("list the search attributes of namespace %s: %v; check the namespace and the rights of this key", s.namespace(), err)}
	}
	missing := map[string]enumspb.IndexedValueType{}
	for _, name := range searchAttributes {
		switch kind, there := known.CustomAttributes[name]; {
		case !there:
			missing[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
		case kind != enumspb.INDEXED_VALUE_TYPE_KEYWORD:
			return usage("search attribute %s of namespace %s is a %s, and Stillhouse needs a Keyword; use another namespace: --namespace", name, s.namespace(), kind)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if _, err := operator.AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: s.namespace(), SearchAttributes: missing,
	}); err != nil {
		return &codedError{exitUnreachable, fmt.Sprintf("namespace %s lacks search attributes, and this key may not add them: %v; have them added with:%s", s.namespace(), err, addCommands(s.namespace(), missing))}
	}
	return s.awaitAttributes(ctx, missing)
}

// addCommands are what an administrator types.
func addCommands(namespace string, missing map[string]enumspb.IndexedValueType) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		fmt.Fprintf(&b, "\n  temporal operator search-attribute create --namespace %s --name %s --type Keyword", namespace, name)
	}
	return b.String()
}

// awaitAttributes waits until the server's caches know what was added.
func (s *session) awaitAttributes(ctx context.Context, added map[string]enumspb.IndexedValueType) error {
	ctx, cancel := context.WithTimeout(ctx, attributesLimit)
	defer cancel()
	tick := time.NewTicker(attributesPoll)
	defer tick.Stop()
	for name := range added {
		for {
			_, err := s.temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: name + " IS NULL"})
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return &codedError{exitUnreachable, fmt.Sprintf("search attribute %s was added to namespace %s, which does not know it yet: %v; try again in a minute", name, s.namespace(), err)}
			case <-tick.C:
			}
		}
	}
	return nil
}
