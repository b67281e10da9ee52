package origin

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// A rig is a sender that does not run, with one peer.
type rig struct {
	*meshtest.Rig
	sender *Sender
}

func newRig(t *testing.T, k *meshtest.Broker, change func(*member.Options)) *rig {
	t.Helper()
	r := &rig{Rig: meshtest.NewRig(t, k, change)}
	r.sender = New(r.Options, r.Book, r.State)
	r.sender.Use(r.Bus)
	return r
}
