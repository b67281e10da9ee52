package node

import (
	"context"
	"errors"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/audit"
	"github.com/bulkhead-mail/bulkhead/internal/logbook"
	"github.com/bulkhead-mail/bulkhead/internal/node/doors"
	"github.com/bulkhead-mail/bulkhead/internal/node/manage"
	"github.com/bulkhead-mail/bulkhead/internal/node/pair"
	"github.com/bulkhead-mail/bulkhead/internal/standby"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// ErrReopen means that the role of the node in its pair has changed, and that the process should open the
// node again.
var ErrReopen = pair.ErrReopen

// openPair opens the node's part in a pair, before the data folder is opened.
func (n *Node) openPair(ctx context.Context) (err error) {
	cfg := n.cfg.Load()
	n.pair, err = pair.Open(ctx, pair.Options{Dir: n.dir, Aside: asideFolder(n.dir), Config: cfg.Standby,
		Each: cfg.Node.Durability == "standby", Shared: cfg.Journal.InStream(),
		Decide: n.decides, Log: n.log, History: n.historyOfPair,
		Files: pair.Files{Names: func() []string { return copiedFiles(n.dir) }, Copies: copies, Held: held, Own: own,
			Changed: n.tookFile}})
	return err
}

// startPair is the stage of a pair, after everything that it copies has been opened.
func (n *Node) startPair(ctx context.Context, st *stage) error {
	p := n.pair
	n.registry.MustRegister(p.Collector())
	listener, err := p.Start(ctx, n.engine)
	if err != nil || listener == nil {
		return err
	}
	st.tasks = []task{
		{name: "standby", run: func(ctx context.Context) error { return p.Serve(ctx, listener) }, abandon: listener.Close},
		{name: "pair", run: p.Run},
		{name: "term of the pair", run: p.Watch},
		{name: "lease of the pair", run: p.RunLease},
		{name: "take-over", run: p.TakeOver},
	}
	return nil
}

// historyOfPair returns the history for [pair.Options].
func (n *Node) historyOfPair() standby.History {
	if n.records.book == nil {
		return nil
	}
	return &copiedHistory{n}
}

// A copiedHistory is the history as the nodes of a pair copy it.
type copiedHistory struct{ n *Node }

// CopyFrom implements [standby.History].
func (h *copiedHistory) CopyFrom(after uint64) (uint64, error) {
	return h.n.records.book.CopyFrom(after, maxRecalled)
}

// After implements [standby.History].
func (h *copiedHistory) After(after uint64, bytes int) (entries []store.Entry, err error) {
	rows, err := h.n.records.book.After(after, bytes)
	for _, r := range rows {
		entries = append(entries, store.Entry{Index: r.ID, Data: r.Data})
	}
	return entries, err
}

// Last implements [standby.History].
func (h *copiedHistory) Last() uint64 { return h.n.records.book.Last() }

// Take implements [standby.History].
func (h *copiedHistory) Take(entries []store.Entry) error {
	rows := make([]logbook.Row, len(entries))
	for i, e := range entries {
		rows[i] = logbook.Row{ID: e.Index, Data: e.Data}
	}
	return h.n.records.book.Take(rows, h.n.remember)
}

// Taken implements [standby.History].
func (h *copiedHistory) Taken() uint64 {
	id, err := h.n.records.book.Taken()
	if err != nil {
		return 0 // what the book has is left out
	}
	return id
}

// decides makes the parts of the node begin that only the first node of a pair has.
func (n *Node) decides(ctx context.Context) {
	if err := n.takeLimits(); err != nil {
		n.log.Warn("rate limits of the first node cannot be taken over", "err", err, "consequence", "they begin empty")
	}
	n.sharing.mu.Lock()
	defer n.sharing.mu.Unlock()
	if n.sharing.mesh == nil && !n.sharing.over {
		if err := n.openMesh(ctx); err != nil {
			n.log.Error("the node does not share", "err", err,
				"consequence", "peers see none of its counts, and it sees none of theirs", "hint", "restart it")
		}
	}
}

// copiedFiles returns the names of the small files of a data folder that a second node needs. The secret comes before
// the former secrets, as [pair.Files] asks: a change writes the former secrets first.
func copiedFiles(dir string) (names []string) {
	names = []string{networkKeyFile, pastKeysFile, sealKeyFile, AdminTokenFile, manage.WhitelistFile, doors.GreylistFile,
		manage.WeightsFile, audit.File, audit.OlderFile}
	for _, pattern := range []string{meshFolder + "/*", meshFolder + "/" + aggregateFolder + "/*", rateFolder + "/*"} {
		found, _ := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern))) // the pattern is well-formed
		for _, f := range found {
			if rel, err := filepath.Rel(dir, f); err == nil {
				names = append(names, filepath.ToSlash(rel))
			}
		}
	}
	return names
}

// copies reports whether a second node takes a file of this name.
func copies(name string) bool {
	if strings.HasPrefix(path.Base(name), ".") || len(name) > standby.MaxName {
		return false
	}
	switch name {
	case networkKeyFile, pastKeysFile, sealKeyFile, AdminTokenFile, manage.WhitelistFile, doors.GreylistFile,
		manage.WeightsFile:
		return true
	}
	if own(name) {
		return true
	}
	switch path.Dir(name) {
	case meshFolder, path.Join(meshFolder, aggregateFolder), rateFolder:
		return true
	}
	return false
}

// held reports whether a running node writes a file itself.
func held(name string) bool { return path.Dir(name) == rateFolder || name == doors.GreylistFile }

// own reports whether a file is the record of one node of a pair.
func own(name string) bool { return name == audit.File || name == audit.OlderFile }

// tookFile notes that a file of the first node was written.
func (n *Node) tookFile(ctx context.Context, name string) error {
	switch name {
	case manage.WhitelistFile:
		return errors.Join(n.whitelist.Read(), n.whitelist.Renew())
	case manage.WeightsFile:
		if err := n.accounts.OpenWeights(n.dir); err != nil {
			n.log.Warn("weights of accounts cannot be taken over", "err", err, "consequence", "the chart of weights begins anew")
		}
	case networkKeyFile, pastKeysFile:
		n.secrets.mu.Lock()
		defer n.secrets.mu.Unlock()
		if err := n.loadSecrets(); err != nil {
			return err
		}
		past := n.secrets.past
		n.state.Renew()
		return n.engine.FollowSecrets(ctx, n.secret(), past.all, past.all[:past.former])
	}
	return nil
}

// takeLimits replaces the rate limits by the first node's.
func (n *Node) takeLimits() error {
	rules, err := rulesOf(n.cfg.Load())
	if err != nil {
		return err
	}
	if err := n.mta.limits.Reload(nil); err != nil { // otherwise its own states are kept
		return err
	}
	return errors.Join(n.pair.ReleaseHeld(), n.mta.limits.Reload(rules))
}

// Invite makes an invitation for a standby of the node of a data folder; see [standby.Invite].
func Invite(dir, address string, valid time.Duration) (string, error) {
	if err := ownFolder(dir); err != nil {
		return "", err
	}
	return standby.Invite(dir, address, valid)
}

// JoinPair makes the new node of a data folder the standby of another one; see [standby.Join]. It returns
// the address of the first node.
func JoinPair(dir, code string) (address string, err error) {
	if err := ownFolder(dir); err != nil {
		return "", err
	}
	c, err := standby.Join(dir, code)
	return c.Address, err
}
