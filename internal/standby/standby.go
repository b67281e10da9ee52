// Package standby keeps a copy of a node's state on a second node, which takes over when the first one
// dies. docs/standby.md has the design.
//
// The second node follows the first one's journal. Entries are decisions, so a node that applies them in
// order has the same state. A [Leader] serves the copy: a checkpoint, if the follower's state is too old
// or of another store, then the entries, and the small files that a node needs besides. A [Follower]
// receives them, and confirms what it has on disk.
//
// Both nodes know each other by their keys, which "bulkhead standby invite" and "join" exchange. Each
// take-over begins a term. A node that learns of a later term than its own stops deciding: see
// [Leader.Fence].
package standby

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// Folder is the folder of this package in a node's data folder.
const Folder = "standby"

// Files in the folder.
const (
	KeyFile        = "key"
	stateFile      = "state.json"
	invitationFile = "invitation.json"
)

// A Role is what a node of a pair does.
type Role string

// The roles. A node that is alone has none.
const (
	First  Role = "first"  // decides, and serves the copy
	Second Role = "second" // follows
)

// A State is what a node remembers of its pair.
type State struct {
	Role Role `json:"role,omitempty"`
	// Peer is the public key of the other node, in hexadecimal; "" before it is known. Address is where
	// the other node listens, "host:port".
	Peer    string `json:"peer,omitempty"`
	Address string `json:"address,omitempty"`
	// Term is the latest term that the node has known to begin.
	Term uint64 `json:"term,omitempty"`
	// Source is the incarnation of the store that this node's store is a copy of; "" for none.
	Source string `json:"source,omitempty"`
	// Token is the secret of an invitation, until the other node knows this one.
	Token string `json:"token,omitempty"`
	// Solo: the node has taken over, and no other node has followed it since, so that it goes on alone
	// whatever its settings are.
	Solo bool `json:"solo,omitempty"`
	// Note describes the last change of the role.
	Note string `json:"note,omitempty"`
}

// LoadState reads the state of a node in the data folder dir; the zero State if there is none.
func LoadState(dir string) (s State, err error) {
	path := filepath.Join(dir, Folder, stateFile)
	if err := wholefile.ReadJSON(path, &s); err != nil {
		return s, fmt.Errorf("standby: %w", err)
	}
	switch key, err := hex.DecodeString(s.Peer); {
	case s.Role != "" && s.Role != First && s.Role != Second:
		return s, fmt.Errorf("standby: %s: %w: role %.20q", path, bulkhead.ErrMalformed, s.Role)
	case err != nil || s.Peer != "" && len(key) != keyBytes:
		return s, fmt.Errorf("standby: %s: %w: peer %.80q is no key", path, bulkhead.ErrMalformed, s.Peer)
	}
	return s, nil
}

// CopyAnew makes the second node of a pair copy the store of the first one when it follows it next: after a repair,
// its own store is no copy. follows reports whether the node of the data folder is the second one.
func CopyAnew(dir string) (follows bool, err error) {
	s, err := LoadState(dir)
	if err != nil || s.Role != Second {
		return false, err
	}
	s.Source = ""
	return true, s.Save(dir)
}

// Inspect returns what is wrong with the files of this package in the data folder dir.
func Inspect(dir string) (faults []error) {
	s, err := LoadState(dir)
	if err != nil {
		faults = append(faults, err)
	}
	path := filepath.Join(dir, Folder, KeyFile)
	if _, err := os.Stat(path); err != nil {
		if s.Peer != "" { // the other node knows this one by it
			faults = append(faults, fmt.Errorf("standby: %w", err))
		}
	} else if _, err := OpenKey(dir); err != nil {
		faults = append(faults, err)
	}
	return faults
}

// Save writes the state.
func (s *State) Save(dir string) error { return writeJSON(filepath.Join(dir, Folder, stateFile), s) }

func writeJSON(path string, v any) error {
	if err := wholefile.MakeFolder(filepath.Dir(path)); err != nil {
		return err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return wholefile.Replace(path, wholefile.Bytes(append(text, '\n')))
}

// An invitation is what the first node keeps of one.
type invitation struct {
	Hash    string    `json:"hash"` // of the token
	Expires time.Time `json:"expires"`
}

// A Code is what "bulkhead standby join" is given.
type Code struct {
	Address string `json:"a"` // where the first node listens
	Key     string `json:"k"` // its public key
	Token   string `json:"t"`
}

const codePrefix = "standby1-"

// Invite makes an invitation for the second node of a pair, which is valid for the given time and for one
// node. dir is the data folder of the first node, and address is where the second one reaches it.
func Invite(dir, address string, valid time.Duration) (code string, err error) {
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" || port == "0" {
		return "", fmt.Errorf("%w: address %.80q, want \"host:port\"", bulkhead.ErrMalformed, address)
	}
	s, err := LoadState(dir)
	if err != nil {
		return "", err
	}
	if s.Role == Second {
		return "", fmt.Errorf("%w: this node follows another one; invite there", bulkhead.ErrForbidden)
	}
	key, err := OpenKey(dir)
	if err != nil {
		return "", err
	}
	token := rand.Text()
	kept := invitation{Hash: hashOf(token), Expires: time.Now().Add(valid).UTC()}
	if err := writeJSON(filepath.Join(dir, Folder, invitationFile), kept); err != nil {
		return "", err
	}
	text, err := json.Marshal(Code{address, key.Public(), token})
	return codePrefix + base64.RawURLEncoding.EncodeToString(text), err
}

// ParseCode reads what [Invite] returns.
func ParseCode(text string) (c Code, err error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), codePrefix)
	raw, err := base64.RawURLEncoding.DecodeString(rest)
	if !ok || err != nil || len(raw) > maxHello || json.Unmarshal(raw, &c) != nil {
		return c, fmt.Errorf("%w: not a code of \"bulkhead standby invite\"", bulkhead.ErrMalformed)
	}
	key, err := hex.DecodeString(c.Key)
	if _, port, aerr := net.SplitHostPort(c.Address); err != nil || len(key) != keyBytes || aerr != nil || port == "" ||
		c.Token == "" {
		return c, fmt.Errorf("%w: a damaged code of \"bulkhead standby invite\"", bulkhead.ErrMalformed)
	}
	return c, nil
}

// Join makes the node of the data folder dir the second one of a pair. It must be a new node, without a
// store; its next start copies the first node.
func Join(dir, code string) (Code, error) {
	c, err := ParseCode(code)
	if err != nil {
		return c, err
	}
	if _, err := os.Stat(filepath.Join(dir, "store")); err == nil {
		return c, fmt.Errorf("%w: %s holds the counts of a node: a standby begins in an empty data folder",
			bulkhead.ErrForbidden, dir)
	}
	if err := wholefile.MakeFolder(dir); err != nil {
		return c, err
	}
	if _, err := OpenKey(dir); err != nil {
		return c, err
	}
	s := State{Role: Second, Peer: c.Key, Address: c.Address, Token: c.Token, Note: "joined"}
	return c, s.Save(dir)
}

// redeem reports whether token is of the invitation in the data folder dir, and ends the invitation then.
func redeem(dir, token string) (bool, error) {
	path := filepath.Join(dir, Folder, invitationFile)
	var kept invitation
	if err := wholefile.ReadJSON(path, &kept); err != nil {
		return false, fmt.Errorf("standby: %w", err)
	}
	if kept.Hash == "" || token == "" || time.Now().After(kept.Expires) ||
		subtle.ConstantTimeCompare([]byte(kept.Hash), []byte(hashOf(token))) != 1 {
		return false, nil
	}
	return true, os.Remove(path)
}

// invited reports whether an invitation is open.
func invited(dir string) bool {
	var kept invitation
	err := wholefile.ReadJSON(filepath.Join(dir, Folder, invitationFile), &kept)
	return err == nil && kept.Hash != "" && time.Now().Before(kept.Expires)
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte("bulkhead standby " + token))
	return hex.EncodeToString(sum[:])
}

// A Status describes a node of a pair.
type Status struct {
	Role    Role
	Address string // of the other node
	Term    uint64
	// Connected: entries flow. Copying: the whole state is being copied.
	Connected, Copying bool
	// Last is the last entry of the first node, as far as this one knows, and Copied the last one that
	// the second node has on disk.
	Last, Copied uint64
	// Current is the last time at which Copied was Last. Heard is when the other node was last heard.
	Current, Heard time.Time
	Problem        string // why nothing flows; "" if it flows or nothing has failed
	// Refused is how often the other node refused this one, or did not keep to the protocol.
	Refused uint64
}

// Lag returns the number of entries that the second node lacks.
func (s *Status) Lag() uint64 {
	if s.Copied >= s.Last {
		return 0
	}
	return s.Last - s.Copied
}

// Age returns for how long the second node has lacked entries; 0 if it lacks none.
func (s *Status) Age(now time.Time) time.Duration {
	if s.Connected && s.Lag() == 0 || s.Current.IsZero() {
		return 0
	}
	return max(0, now.Sub(s.Current))
}

// ErrFenced means that the other node of the pair decides, in a later term.
var ErrFenced = errors.New("standby: the other node of the pair has taken over")
