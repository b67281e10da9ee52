// Package waiting keeps votes that no node has taken yet, on disk, in their order.
//
// Each user of the machine has a folder of their own below [Shared], which the user creates. A vote is a
// file: a line of JSON, and the message. The plugins for mail programs write the same files. Votes are
// sent in the order in which they were cast, and removed once the node has taken or refused them for
// good.
package waiting

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Shared is the folder in which every user may create a folder. Packages and "bulkhead setup" make it,
// with mode 1777. $BULKHEAD_WAITING names another, and tests replace it.
var Shared = cmp.Or(os.Getenv("BULKHEAD_WAITING"), "/var/spool/bulkhead")

// The limits of one user's folder.
const (
	MaxVotes  = 1000
	MaxBytes  = 64 << 20 // of all votes
	maxHeader = 64 << 10
)

const suffix = ".vote" // of a file with a vote

var (
	// ErrFull is wrapped by the error for a vote that exceeds a limit of the folder.
	ErrFull = errors.New("too many votes wait")
	// ErrLater is wrapped by a sender's error after which the same vote may succeed later.
	ErrLater = errors.New("no node takes the vote")
	// errForm is wrapped by the error for a file that holds no vote.
	errForm = errors.New("not a vote")
)

// A Vote is a vote that waits.
type Vote struct {
	ID        string    `json:"id"` // idempotency key of the report
	Time      time.Time `json:"time"`
	Vote      string    `json:"vote"`
	User      string    `json:"user,omitempty"`       // on whose behalf
	Server    string    `json:"server,omitempty"`     // URL of the node; "" for the node of the machine
	MessageID string    `json:"message_id,omitempty"` // of the message, if there is no Raw
	TokenFile string    `json:"token_file,omitempty"` // of the account that votes
	TokenEnv  bool      `json:"token_env,omitempty"`  // the account's token was in the environment
	Count     uint32    `json:"count,omitempty"`
	Client    string    `json:"client,omitempty"`
	Sender    string    `json:"sender,omitempty"`
	ListID    string    `json:"list_id,omitempty"`
	DKIM      []string  `json:"dkim,omitempty"`
	Raw       []byte    `json:"-"`
}

// A Folder is the folder of one user. Several processes may use it at once.
type Folder struct {
	Path string
	UID  int // its owner
}

// Owned returns the folders of this process's user. There may be several, because plugins make folders
// of their own.
func Owned() (all []Folder) {
	for _, f := range Folders() {
		if f.UID == os.Geteuid() {
			all = append(all, f)
		}
	}
	if home, err := private(); err == nil {
		if info, err := os.Stat(home); err == nil && info.IsDir() {
			all = append(all, Folder{home, os.Geteuid()})
		}
	}
	return all
}

// MakeShared creates [Shared]. Only root can.
func MakeShared() error {
	if err := os.MkdirAll(Shared, 0o755); err != nil {
		return fmt.Errorf("waiting: %w", err)
	}
	if err := os.Chmod(Shared, 0o777|fs.ModeSticky); err != nil {
		return fmt.Errorf("waiting: %w", err)
	}
	return nil
}

// Folders returns the folders of all users below [Shared].
func Folders() (all []Folder) {
	entries, err := os.ReadDir(Shared)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.IsDir() { // no symbolic link
			if s, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().Perm()&0o077 == 0 {
				all = append(all, Folder{filepath.Join(Shared, e.Name()), int(s.Uid)})
			}
		}
	}
	return all
}

// private returns the folder in the home of a user of a machine without [Shared].
func private() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if state == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		if _, err := os.Stat(home); err != nil { // a system user's home is often only a name
			return "", err
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "bulkhead", "waiting"), nil
}

// Make returns the folder of this process's user, which it creates if there is none. Another user
// cannot take the name of the folder, because the name is random.
func Make() (Folder, error) {
	if all := Owned(); len(all) > 0 {
		return all[0], nil
	}
	path, err := os.MkdirTemp(Shared, strconv.Itoa(os.Geteuid())+"-") // mode 0700
	if err != nil {
		if path, err = private(); err == nil {
			err = os.MkdirAll(path, 0o700)
		}
	}
	if err != nil {
		return Folder{}, fmt.Errorf("waiting: %w", err)
	}
	return Folder{path, os.Geteuid()}, nil
}

// Keep adds a vote. It is on disk when Keep returns. A vote for which the folder has no room is refused by
// an error that wraps [ErrFull], and fields that are too long to be read again by another error.
func (f Folder) Keep(v *Vote) error {
	head, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("waiting: %w", err)
	}
	if len(head) > maxHeader {
		return fmt.Errorf("%w: fields of %d bytes, limit %d", errForm, len(head), maxHeader)
	}
	names, size, err := f.votes()
	if err != nil {
		return err
	}
	if len(names) >= MaxVotes || size+int64(len(head)+len(v.Raw)) > MaxBytes {
		return fmt.Errorf("%w in %s: %d votes, %d bytes", ErrFull, f.Path, len(names), size)
	}
	name := filepath.Join(f.Path, fmt.Sprintf("%019d-%s", v.Time.UnixNano(), rand.Text()))
	w, err := os.OpenFile(name+".tmp", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("waiting: %w", err)
	}
	_, err = w.Write(slices.Concat(head, []byte("\n"), v.Raw))
	err = errors.Join(err, w.Sync(), w.Close())
	if err == nil {
		err = os.Rename(name+".tmp", name+suffix)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("waiting: %w", err), os.Remove(name+".tmp"))
	}
	return nil
}

// votes returns the names of the votes in the order in which they were cast, and their size in bytes.
func (f Folder) votes() (names []string, size int64, err error) {
	entries, err := os.ReadDir(f.Path)
	if err != nil {
		return nil, 0, fmt.Errorf("waiting: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !strings.HasSuffix(e.Name(), suffix) {
			continue
		}
		names = append(names, e.Name())
		size += info.Size()
	}
	return names, size, nil
}

// A State is what waits in a folder.
type State struct {
	Votes  int       `json:"votes"`
	Oldest time.Time `json:"oldest,omitzero"` // when the oldest vote was cast
}

// State returns what waits. A folder that is gone holds nothing.
func (f Folder) State() (s State, err error) {
	names, _, err := f.votes()
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	s.Votes = len(names)
	if len(names) > 0 {
		stamp, _, _ := strings.Cut(names[0], "-")
		if n, err := strconv.ParseInt(stamp, 10, 64); err == nil {
			s.Oldest = time.Unix(0, n).UTC()
		}
	}
	return s, err
}

// Send sends the votes in their order. A vote whose error wraps [ErrLater] stays, and Send returns the
// first of these errors at its end; send decides whether later votes may pass it. A vote that fails for
// good is removed, and refused is called with its error. Only one process sends from a folder at a time;
// another waits for it.
func (f Folder) Send(send func(*Vote) error, refused func(name string, err error)) (sent int, err error) {
	names, _, err := f.votes()
	if err != nil || len(names) == 0 {
		return 0, err
	}
	unlock, err := f.lock()
	if err != nil {
		return 0, err
	}
	defer unlock()
	if names, _, err = f.votes(); err != nil { // another process may have sent some of them
		return 0, err
	}
	var first error
	for _, name := range names {
		path := filepath.Join(f.Path, name)
		v, err := read(path)
		if err != nil && !errors.Is(err, errForm) {
			err = fmt.Errorf("%w: %w", ErrLater, err) // such as too many open files
		} else if err == nil {
			err = send(v)
		}
		switch {
		case err == nil:
			sent++
		case errors.Is(err, ErrLater):
			if first == nil {
				first = err
			}
			continue
		default:
			refused(path, err)
		}
		if err := os.Remove(path); err != nil {
			return sent, fmt.Errorf("waiting: %w", err)
		}
	}
	return sent, first
}

func (f Folder) lock() (unlock func() error, err error) {
	l, err := os.OpenFile(filepath.Join(f.Path, "lock"), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("waiting: %w", err)
	}
	if err := syscall.Flock(int(l.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("waiting: %w", err), l.Close())
	}
	return l.Close, nil // closing the file gives the lock back
}

// read returns the vote of a file.
func read(path string) (*Vote, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("waiting: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxHeader+MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("waiting: %w", err)
	}
	v, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// parse reads the bytes of a file with a vote.
func parse(text []byte) (*Vote, error) {
	head, raw, ok := bytes.Cut(text, []byte("\n"))
	if !ok || len(head) > maxHeader || len(raw) > MaxBytes {
		return nil, errForm
	}
	v := new(Vote)
	if err := json.Unmarshal(head, v); err != nil {
		return nil, fmt.Errorf("%w: %w", errForm, err)
	}
	if v.Vote == "" || (len(raw) == 0) != (v.MessageID != "") {
		return nil, fmt.Errorf("%w: it names no message", errForm)
	}
	v.Raw = raw
	return v, nil
}
