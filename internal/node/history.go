package node

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"io/fs"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/audit"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/logbook"
	"github.com/bulkhead-mail/bulkhead/internal/node/manage"
	"github.com/bulkhead-mail/bulkhead/internal/recent"
	"github.com/bulkhead-mail/bulkhead/internal/trial"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// historyFile is the file of checks and votes, in the data folder.
const historyFile = "history.db"

// bookKey returns the key of the hashes in the history. Only this node has it.
func bookKey(seal [32]byte) (key logbook.Key) {
	h := hmac.New(sha256.New, seal[:])
	h.Write([]byte("bulkhead history"))
	copy(key[:], h.Sum(nil))
	return key
}

// records are what a node writes down about its work.
type records struct {
	book  *logbook.Book // checks and votes of the last days; nil for none
	sums  *manage.Sums
	audit *audit.Log // actions of administrators
}

// startHistory is the stage of the history and of the record of administration.
func (n *Node) startHistory(_ context.Context, st *stage) error {
	cfg := n.cfg.Load().History
	var err error
	if n.records.audit, err = audit.Open(n.dir, cfg.Audit, clock.Now); err != nil {
		return err
	}
	n.records.audit.Beside(filepath.Join(n.dir, otherRecord("")))
	n.record(admin.AuditEntry{Door: "command", Action: "start", About: map[string]string{"version": n.version}})
	n.failures.OnLog = n.loginFailed
	n.registry.MustRegister(historyCollector(&n.records))
	n.records.sums = manage.OpenSums(n.dir, n.doors.Sums, n.log)
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
		n.noteParts(historyFile)
		return nil
	}
	n.records.book, err = logbook.Open(path, logbook.Options{
		MaxBytes: cfg.Bytes, MaxAge: time.Duration(cfg.Days) * 24 * time.Hour, Key: n.bookKey, Subjects: cfg.Subjects,
		Near: n.cfg.Load().Tally.NearMatch, Common: signature.NeverList(), Space: n.spaceOf, Now: clock.Now, Log: n.log,
	})
	if err != nil {
		return err
	}
	if n.front.archive != nil {
		n.front.archive.book = n.records.book
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
	err := n.records.book.Latest(maxRecalled, n.remember)
	if err != nil {
		n.log.Warn("history cannot be read", "err", err,
			"consequence", "digests of messages seen before the start stand alone")
	}
}

// remember puts an entry of the history into the memory of messages, if there is one.
func (n *Node) remember(e *logbook.Entry) {
	if n.front.recent == nil {
		return
	}
	sigs := e.Signatures()
	if !e.White && e.Space != logbook.NoSpace && recent.Whole(sigs) {
		n.front.recent.Recall(sigs, recent.Space(e.Space), networkIn(sigs), e.Time())
	}
	if d, ok := manage.DeliveryIn(e, sigs); ok {
		n.front.deliveries.Note(&d)
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
	f := &n.front
	f.recent = recent.NewTable(m.Bytes-m.Bytes/deliveriesShare, time.Duration(m.Keep), clock.Now)
	f.deliveries = recent.NewDeliveries(m.Bytes/deliveriesShare, time.Duration(m.Keep), clock.Now)
	f.joining, f.archive = recent.New(house, f.recent, n.showsTo), &archive{key: n.bookKey, log: n.log}
	f.joining.Join(f.deliveries, f.archive)
	f.joining.Unjoined = n.unjoined()
	return f.joining
}

// deliveriesShare is the part of the memory of messages that remembers the sources of deliveries.
const deliveriesShare = 4

// unjoinedEvery is the least time between two lines of the log about votes that were not joined.
const unjoinedEvery = time.Hour

// unjoined returns a function that logs votes whose delivery was not found: each at level DEBUG, and their
// number once an hour. A node that sees no deliveries logs none.
func (n *core) unjoined() func(*bulkhead.Report) {
	var mu sync.Mutex
	var votes int // since the last line
	var logged time.Time
	return func(r *bulkhead.Report) {
		if deliveries, _ := n.front.deliveries.Size(); deliveries == 0 {
			return
		}
		n.log.Debug("vote was not joined with its delivery", "vote", r.Vote, "account", r.Reporter.Account,
			"user", r.Reporter.User)
		mu.Lock()
		defer mu.Unlock()
		votes++
		if now := clock.Now(); logged.IsZero() || now.Sub(logged) >= unjoinedEvery {
			n.log.Info("votes were not joined with their deliveries, which the node did not see", "votes", votes,
				"consequence", "they count for the messages, not for senders or networks")
			votes, logged = 0, now
		}
	}
}

// joins returns the number of votes by how they were joined, nil if the node joins none.
func (f *front) joins() *admin.Joined {
	if f.joining == nil {
		return nil
	}
	of := func(j bulkhead.Join) uint64 { return uint64(f.joining.Stats.Joins[j].Load()) }
	return &admin.Joined{MessageID: of(bulkhead.JoinedByID), Text: of(bulkhead.JoinedByText),
		Near: of(bulkhead.JoinedByNear), Unknown: of(bulkhead.NotJoined)}
}

// An archive is the history as the memory of deliveries reads it.
type archive struct {
	key  logbook.Key
	book *logbook.Book // nil for none
	log  *slog.Logger
}

// MessageID implements [recent.Archive].
func (a *archive) MessageID(text string) [16]byte { return a.key.MessageID(text) }

// Mailbox implements [recent.Archive].
func (a *archive) Mailbox(address string) recent.Mailbox {
	return recent.Mailbox(a.key.Mailbox(address))
}

// maxPast is how many entries of the history are read for a vote.
const maxPast = 256

// Find implements [recent.Archive].
func (a *archive) Find(ctx context.Context, text bulkhead.Signature, messageID [16]byte) (all []recent.Delivery) {
	if a.book == nil {
		return nil
	}
	var queries []logbook.Query
	if messageID != ([16]byte{}) {
		queries = append(queries, logbook.Query{Message: messageID, Limit: maxPast})
	}
	if text.Valid() {
		queries = append(queries, logbook.Query{Signature: &text, Limit: maxPast})
	}
	for _, q := range queries {
		page, err := a.book.Search(ctx, q)
		if err != nil {
			a.log.Warn("history cannot be read", "err", err, "consequence", "a vote was not joined with its delivery")
		}
		for i := range page.Entries {
			if d, ok := manage.DeliveryIn(&page.Entries[i], page.Entries[i].Signatures()); ok {
				all = append(all, d)
			}
		}
		if len(all) > 0 {
			break
		}
	}
	slices.Reverse(all) // the page begins with the latest
	return all
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
	n.record(admin.AuditEntry{Door: door, From: network.String(), Action: "loginFailed", Error: "wrong token or password",
		About: map[string]string{"failures": strconv.Itoa(failures)}})
}

// Reloaded records a reload of the configuration by a signal, and its outcome.
func (n *Node) Reloaded(changed, restart []string, err error) {
	e := admin.AuditEntry{Door: "signal", Action: "reload", About: map[string]string{}}
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

func (n *Node) record(e admin.AuditEntry) {
	if err := n.records.audit.Append(e); err != nil {
		n.log.Error("record of administration cannot be written", "err", err,
			"consequence", "this action is not in it", "action", e.Action)
	}
}

// RecordCommand records a command's action on the data folder of a node that does not run. An error
// is not worth a failure of the command.
func RecordCommand(dir string, e admin.AuditEntry) error {
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
