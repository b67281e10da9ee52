package mesh

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/bus"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestWrongSecret checks that a node that joins a hub with another secret than the hub's is
// reported at both, in the log and in the state of peers.
func TestWrongSecret(t *testing.T) {
	address := freePort(t)
	hubDir, hubID := meshtest.Folder(t)
	joinDir, joinID := meshtest.Folder(t)
	other := filter.Secret{9, 9, 9}
	var meshes []*Mesh
	var logs [2]logtest.Log
	for i, o := range []member.Options{
		{Dir: hubDir, Identity: hubID, KeyID: enginetest.Secret.ID(), Mode: member.Hub, Listen: address},
		{Dir: joinDir, Identity: joinID, KeyID: other.ID(), Mode: member.Join, Servers: []string{address}},
	} {
		o = quick(o)
		o.Engine, o.Log = enginetest.Small(t, nil), logs[i].Logger()
		m, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := errors.Join(<-done, m.Close()); err != nil {
				t.Error(err)
			}
		})
		meshes = append(meshes, m)
	}
	befriend(t, meshes...)
	for i, m := range meshes {
		want := bus.NewNames(meshes[1-i].opts.KeyID).Net
		enginetest.Eventually(t, time.Minute, "each side says that the secrets differ", func() bool {
			return m.Status().Peers[0].Network == want && logs[i].Has("another network secret") && logs[i].Has(want)
		})
	}
}
