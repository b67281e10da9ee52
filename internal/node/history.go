package node

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/internal/audit"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/logbook"
	"github.com/bulkhead-mail/bulkhead/internal/node/admin"
	"github.com/bulkhead-mail/bulkhead/internal/recent"
	"github.com/bulkhead-mail/bulkhead/internal/trial"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// historyFile is the file of checks and votes, in the data folder.
const historyFile = "history.db"

// bookKey returns the key of the hashes in the history. Only this node has it.
func bookKey(seal [32]byte) (key [32]byte) {
	h := hmac.New(sha256.New, seal[:])
	h.Write([]byte("bulkhead history"))
	copy(key[:], h.Sum(nil))
	return key
}

// records are what a node writes down about its work.
type records struct {
	book  *logbook.Book // checks and votes of the last days; nil for none
	sums  *admin.Sums
	audit *audit.Log // actions of administrators
}

// startHistory is the stage of the history and of the record of administration.
func (n *Node) startHistory(_ context.Context, st *stage) error {
	cfg := n.cfg.Load().History
	var err error
	if n.records.audit, err = audit.Open(n.dir, cfg.Audit, clock.Now); err != nil {
		return err
	}
	n.failures.OnLog = n.loginFailed
	n.registry.MustRegister(newHistoryCollector(&n.records))
	n.records.sums = admin.OpenSums(n.dir, n.doors.Sums, n.log)
	st.tasks = append(st.tasks, task{name: "numbers of verdicts", run: n.records.sums.Keep})
	st.close = func(context.Context) error {
		n.records.sums.Close()
		if n.records.book == nil {
			return nil
		}
		return n.records.book.Close()
	}
	path := filepath.Join(n.dir, historyFile)
	if cfg.Bytes == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			n.log.Error("file of the disabled history cannot be removed", "file", path, "err", err,
				"hint", "remove it by hand")
		}
		return nil
	}
	n.records.book, err = logbook.Open(path, logbook.Options{
		MaxBytes: cfg.Bytes, MaxAge: time.Duration(cfg.Days) * 24 * time.Hour, Key: n.bookKey, Subjects: cfg.Subjects,
		Near: n.cfg.Load().Tally.NearMatch, Common: signature.NeverList(), Space: n.spaceOf, Now: clock.Now, Log: n.log,
	})
	if err != nil {
		return err
	}
	st.tasks = append(st.tasks, task{name: "history of mail", run: n.records.book.Run})
	if n.front.recent != nil {
		n.recall()
	}
	return nil
}

// spaceOf is showsTo for the history.
func (n *core) spaceOf(who bulkhead.Reporter) (string, bool) {
	space, ok := n.showsTo(who)
	return string(space), ok
}

// maxRecalled is how many entries are read into the memory of whole messages at the start: more
// than fill it by default.
const maxRecalled = 50_000

// recall fills the memory of whole messages with the messages of the history.
func (n *Node) recall() {
	err := n.records.book.Latest(maxRecalled, func(e *logbook.Entry) {
		if sigs := e.Signatures(); !e.White && e.Space != logbook.NoSpace && recent.Whole(sigs) {
			n.front.recent.Recall(sigs, recent.Space(e.Space), networkIn(sigs), e.Time())
		}
	})
	if err != nil {
		n.log.Warn("history cannot be read", "err", err,
			"consequence", "digests of messages seen before the start stand alone")
	}
}

// networkIn returns the network that delivered a message, taken from its signatures, in the form
// that [recent.House] uses.
func networkIn(sigs []bulkhead.Signature) string {
	for i := range sigs {
		if sigs[i].Scheme() == bulkhead.Network {
			if p, err := netip.ParsePrefix(sigs[i].Name()); err == nil {
				return p.Addr().String()
			}
		}
	}
	return ""
}

// remembering returns house with a memory of recent messages, unless the configuration disables it.
// The test message is recognised between the memory and house, so that a digest which the memory
// completes is judged as the whole mail.
func (n *core) remembering(house bulkhead.Counter) bulkhead.Counter {
	m := n.cfg.Load().Memory
	n.front.judge = house
	sigs, err := signature.Compute(context.Background(), []byte(trial.Message), n.hashing)
	if err != nil { // excluded by the tests of trial
		n.log.Error("test message has no signatures", "err", err, "consequence", "doors do not recognise it")
	} else {
		house = trial.New(house, sigs)
	}
	if m.Bytes == 0 {
		return house
	}
	n.front.recent = recent.NewTable(m.Bytes, time.Duration(m.Keep), clock.Now)
	n.front.joining = recent.New(house, n.front.recent, n.showsTo)
	return n.front.joining
}

// showsTo implements [recent.Door].
func (n *core) showsTo(who bulkhead.Reporter) (recent.Space, bool) {
	s, err := n.engine.Accounts().Door(who)
	switch {
	case err != nil:
		return "", false
	case s.Root:
		return "", true
	case s.Voucher != "":
		return recent.Space(s.Voucher), true
	}
	return recent.Space(s.Voice), true
}

// loginFailed records failed log-ins, as often as the log has a line about them.
func (n *Node) loginFailed(door string, network netip.Addr, failures int) {
	n.record(client.AuditEntry{Door: door, From: network.String(), Action: "loginFailed", Error: "wrong token or password",
		About: map[string]string{"failures": strconv.Itoa(failures)}})
}

// Reloaded records a reload of the configuration by a signal, and its outcome.
func (n *Node) Reloaded(changed, restart []string, err error) {
	e := client.AuditEntry{Door: "signal", Action: "reload", About: map[string]string{}}
	if len(changed) > 0 {
		e.About["changed"] = strings.Join(changed, " ")
	}
	if len(restart) > 0 {
		e.About["need_restart"] = strings.Join(restart, " ")
	}
	if err != nil {
		e.Error = err.Error()
	}
	n.record(e)
}

func (n *Node) record(e client.AuditEntry) {
	if err := n.records.audit.Append(e); err != nil {
		n.log.Error("record of administration cannot be written", "err", err,
			"consequence", "this action is not in it", "action", e.Action)
	}
}

// RecordCommand records a command's action on the data folder of a node that does not run. An error
// is not worth a failure of the command.
func RecordCommand(dir string, e client.AuditEntry) error {
	if err := ownFolder(dir); err != nil {
		return err
	}
	l, err := audit.Open(dir, math.MaxInt64, clock.Now)
	if err != nil {
		return err
	}
	e.Door = "command"
	return l.Append(e)
}
