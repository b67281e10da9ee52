package abuse

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// Folders for handled mail, inside its Maildir (Maildir++).
const (
	Reported = ".Reported"
	Refused  = ".Refused"
)

// The defaults of a [Clerk].
const (
	DefaultMaxBytes = 32 << 20
	DefaultKeep     = 30 * 24 * time.Hour
	batch           = 1000 // number of names read at once
)

// ErrRefused is wrapped by the error of [Clerk].Vote if a retry cannot succeed.
var ErrRefused = errors.New("abuse: refused")

// A Box is a Maildir, and the vote that its mail casts on the messages that it reports.
type Box struct {
	Dir  string
	Vote bulkhead.Vote
}

// A Clerk works through boxes. A mail whose messages were voted on goes into the folder [Reported]
// of its box, and one that was refused into [Refused], so each is handled once. If the clerk is
// stopped in between, it votes again with the same identity, which counts once. A mail on which the
// node cannot be asked stays. Set the fields before use. Only one goroutine may call the methods at
// a time.
type Clerk struct {
	Boxes   []Box
	Options Options
	// Vote votes on a message on behalf of a user. Votes with the same id are one. An error
	// that does not wrap [ErrRefused] ends the pass, and the mail stays.
	Vote func(ctx context.Context, vote bulkhead.Vote, user, id string, raw []byte) error
	// MaxBytes is the size of the largest mail. Larger mail is refused unread. 0 means
	// DefaultMaxBytes.
	MaxBytes int64
	// Keep is the time after which handled mail is removed; 0 means DefaultKeep, a negative value
	// means never.
	Keep time.Duration
	// Now returns the time; nil means time.Now.
	Now func() time.Time
	// Log has a line for each mail; nil discards them.
	Log *slog.Logger
}

// Totals are the numbers of a pass.
type Totals struct {
	Mails    int `json:"mails"`    // mails whose messages were voted on
	Messages int `json:"messages"` // in them
	Refused  int `json:"refused"`  // mails
	Lost     int `json:"-"`        // mails of users of which all votes or some are lost
	Removed  int `json:"removed"`  // mails handled longer than Keep ago
}

// Pass works through all boxes once. It returns the first error that ended the work on a box, but
// still works through the other boxes.
func (c *Clerk) Pass(ctx context.Context) (Totals, error) {
	c.prepare()
	var t Totals
	var errs []error
	for _, b := range c.Boxes {
		if err := c.box(ctx, b, &t); err != nil {
			errs = append(errs, fmt.Errorf("abuse: %s: %w", b.Dir, err))
		}
	}
	return t, errors.Join(errs...)
}

func (c *Clerk) prepare() {
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	if c.Keep == 0 {
		c.Keep = DefaultKeep
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

func (c *Clerk) box(ctx context.Context, b Box, t *Totals) error {
	root, err := os.OpenRoot(b.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := root.Stat("new"); err != nil {
		return fmt.Errorf("no Maildir: %w", err)
	}
	for _, folder := range []string{Reported, Refused} {
		if err := makeFolder(root, folder); err != nil {
			return err
		}
		if err := c.forget(root, folder, t); err != nil {
			return err
		}
	}
	for _, folder := range []string{"new", "cur"} {
		names, err := files(root, folder)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := c.mail(ctx, root, b.Vote, folder+"/"+name, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// mail handles one file.
func (c *Clerk) mail(ctx context.Context, root *os.Root, vote bulkhead.Vote, file string, t *Totals) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	raw, err := c.read(root, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a mail program has moved it in the meantime
	}
	var r *Report
	taken := 0
	if err == nil {
		r, err = c.Options.Read(raw)
	}
	if err == nil {
		taken, err = c.vote(ctx, vote, r, raw)
	}
	if taken > 0 && errors.Is(err, ErrRefused) {
		t.Lost++
		c.Log.Warn("messages of a mail refused", "file", file, "messages", len(r.Messages)-taken, "err", err)
		err = nil
	}
	switch {
	case err == nil:
		t.Mails++
		t.Messages += taken
		c.Log.Info("reported", "user", r.User, "vote", vote, "messages", taken, "inline", r.Inline, "file", file)
		return move(root, file, Reported)
	case errors.Is(err, ErrStranger), errors.Is(err, ErrNothing), errors.Is(err, ErrMalformed), errors.Is(err, ErrRefused):
		t.Refused++
		if !errors.Is(err, ErrStranger) {
			t.Lost++
		}
		c.Log.Warn("refused", "file", file, "err", err)
		return move(root, file, Refused)
	}
	return err
}

func (c *Clerk) read(root *os.Root, file string) ([]byte, error) {
	info, err := root.Lstat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > c.MaxBytes {
		return nil, fmt.Errorf("%w: not a file of at most %d bytes", ErrMalformed, c.MaxBytes)
	}
	f, err := root.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, c.MaxBytes))
}

// vote votes on the messages of a report, and returns how many votes were taken. A message that is refused does not
// hold up the others. The id of each vote is the same if the mail is handled again.
func (c *Clerk) vote(ctx context.Context, vote bulkhead.Vote, r *Report, raw []byte) (taken int, err error) {
	sum := sha256.Sum256(raw)
	var refused []error
	for i, m := range r.Messages {
		id := fmt.Sprintf("abuse-%s-%d", hex.EncodeToString(sum[:16]), i)
		switch err := c.Vote(ctx, vote, r.User, id, m); {
		case err == nil:
			taken++
		case errors.Is(err, ErrRefused):
			refused = append(refused, err)
		default:
			return taken, err
		}
	}
	return taken, errors.Join(refused...)
}

// forget removes mail that was handled longer than Keep ago from a folder.
func (c *Clerk) forget(root *os.Root, folder string, t *Totals) error {
	if c.Keep < 0 {
		return nil
	}
	names, err := files(root, folder+"/cur")
	if err != nil {
		return err
	}
	for _, name := range names {
		file := folder + "/cur/" + name
		info, err := root.Lstat(file)
		if err != nil || c.Now().Sub(info.ModTime()) < c.Keep {
			continue
		}
		if err := root.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		t.Removed++
	}
	return nil
}

// files returns the names in a folder of a Maildir, except hidden ones.
func files(root *os.Root, folder string) (names []string, err error) {
	d, err := root.Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	for len(names) < 100*batch {
		entries, err := d.ReadDir(batch)
		for _, e := range entries {
			if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
				names = append(names, e.Name())
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// makeFolder creates a folder inside a Maildir.
func makeFolder(root *os.Root, folder string) error {
	for _, name := range []string{folder, folder + "/tmp", folder + "/new", folder + "/cur"} {
		if err := root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	f, err := root.OpenFile(folder+"/maildirfolder", os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// move moves a mail into a folder and marks it as read. The file gets the time of the move.
func move(root *os.Root, file, folder string) error {
	name, _, _ := strings.Cut(path.Base(file), ":2,")
	to := folder + "/cur/" + name + ":2,S"
	for i := 1; ; i++ {
		if _, err := root.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		}
		to = fmt.Sprintf("%s/cur/%s.%d:2,S", folder, name, i)
	}
	if err := root.Rename(file, to); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if info, err := root.Lstat(to); err != nil || !info.Mode().IsRegular() {
		return nil // a link, whose target is not the clerk's
	}
	now := time.Now()
	return root.Chtimes(to, now, now)
}
