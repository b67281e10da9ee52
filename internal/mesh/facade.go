package mesh

import (
	"context"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/bus"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/replica"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
)

// JoinBy presents an invitation to its inviter, at one hub after the other: see [member.JoinBy].
func JoinBy(ctx context.Context, v *member.Invitation, id *member.Identity, name string,
	now func() time.Time) (member.Joined, error) {
	ask := func(ctx context.Context, hub, invitation string, inviter wire.Public, request []byte) ([]byte, bool, error) {
		return bus.AskToJoin(ctx, id, hub, invitation, inviter, request)
	}
	return member.JoinBy(ctx, ask, v, id, name, now)
}

// Inspect returns the fault of each damaged file in a node's mesh folder, by file name. An absent
// folder has no faults: the node has no peers. Inspect changes nothing.
func Inspect(dir string) map[string]error {
	faults := member.Inspect(dir)
	if _, err := replica.ReadHeard(dir); err != nil {
		faults[replica.HeardFile] = err
	}
	return faults
}

// WantRecovery makes a node take back what its peers hold of it: see [member.WantRecovery].
func WantRecovery(dir string, all bool) (peers int, err error) { return member.WantRecovery(dir, all) }

// Recovering reports whether a node with the mesh folder dir takes its arrays back from peers.
func Recovering(dir string) bool {
	_, wanted, err := member.ReadRecovery(dir)
	return wanted || err != nil
}

// Shared reports whether a node with the mesh folder dir has shared its counts before.
func Shared(dir string) bool {
	r, err := member.LoadState(dir)
	return err == nil && r.Incarnation > 0
}

// The types and constants of a mesh's settings and state, which the rooms below this package define.
type (
	// Options are the settings of a mesh.
	Options = member.Options
	// An Engine has the methods of [engine.Engine] that a mesh uses.
	Engine = member.Engine
	// A Mode selects the broker.
	Mode = member.Mode
	// A Role selects what a node shares.
	Role = member.Role
	// An Identity is the key pair of a node.
	Identity = member.Identity
	// An Organisation identifies a source of counts.
	Organisation = wire.Organisation

	// An Invitation is the content of the line with which a node joins a network.
	Invitation = member.Invitation
	// NewInvitation describes an invitation to be made.
	NewInvitation = member.NewInvitation
	// InvitationStatus is the state of an invitation.
	InvitationStatus = member.InvitationStatus
	// Joined is an inviter's answer.
	Joined = member.Joined

	// NewRotation is a change of the network's secret that an administrator requests.
	NewRotation = member.NewRotation
	// RotationStatus is the state of a change of the network's secret.
	RotationStatus = member.RotationStatus
	// FormerStatus is the state of the replica of one former incarnation of a peer.
	FormerStatus = member.FormerStatus

	// Access holds the files with which a node signs in to NATS servers of another operator.
	Access = natsdial.Access
)

// The modes and roles of [member.Options].
const (
	Join     = member.Join
	External = member.External

	Publish = member.Publish
)

// Files of the mesh folder.
const (
	KeyFile   = member.KeyFile
	PeersFile = member.PeersFile
	StateFile = member.StateFile
)

// OpenIdentity returns the identity stored in dir, and makes one if there is none: see
// [member.OpenIdentity].
func OpenIdentity(dir string) (*Identity, error) { return member.OpenIdentity(dir) }

// RotateIdentity makes a new key pair in dir, signed with the old key: see [member.RotateIdentity].
func RotateIdentity(dir string) (old, to *Identity, err error) { return member.RotateIdentity(dir) }

// Befriend puts a peer on the list of a node that is not sharing: see [member.Befriend].
func Befriend(dir, id, name, group string, weight float64, now time.Time) error {
	return member.Befriend(dir, id, name, group, weight, now)
}

// ParseInvitation reads the line of an invitation: see [member.ParseInvitation].
func ParseInvitation(line string) (*Invitation, error) { return member.ParseInvitation(line) }

// ForgetInvitations revokes all invitations of a node that is not sharing.
func ForgetInvitations(dir string) error { return member.ForgetInvitations(dir) }

// ForgetRotation drops the announced change of the secret of a node that is not sharing.
func ForgetRotation(dir string) error { return member.ForgetRotation(dir) }

// Grants returns the configuration of a NATS server that admits the nodes with the given keys to a
// network: see [bus.Grants].
func Grants(network, domain string, keys ...string) (string, error) {
	return bus.Grants(network, domain, keys...)
}
