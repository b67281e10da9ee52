package node

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/api"
	"github.com/bulkhead-mail/bulkhead/internal/audit"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/edge"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/logbook"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/recent"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// A core is the engine with its store and secrets, shared by all front doors.
type core struct {
	cfg      atomic.Pointer[config.Config]
	dir      string
	log      *slog.Logger
	version  string
	engine   *engine.Engine
	house    bulkhead.Counter         // for the doors: the engine or edge behind the memory of messages
	edge     *edge.Edge               // nil if the node has its own engine for checks
	judge    bulkhead.Counter         // engine or edge, without that memory
	weights  weights                  // of accounts, over time
	spared   *spared                  // an administrator's entries on the whitelist
	recent   *recent.Table            // recent messages; nil for none
	joining  *recent.House            // completes digests from recent, before engine or edge
	counted  map[string]*countedHouse // clearinghouses by door
	mailbook *logbook.Book            // checks and votes of the last days; nil for none
	bookKey  [32]byte                 // of the hashes in mailbook
	audit    *audit.Log               // actions of administrators
	token    *bearer                  // sent by the edge to its upstream; nil without one
	store    *store.Store
	sealer   *trust.Sealer
	present  atomic.Pointer[filter.Secret] // the network's secret, see secrets.go
	past     past                          // content of the file of former secrets; rekeying guards it
	rekeying sync.Mutex
	hashing  signature.Options // how whole messages are signed
	started  time.Time
	sums     *logbook.Sums // of verdicts and votes, by door and time
	draining atomic.Bool
	doors    []admin.Door // open doors
	messages *door.Memory // memory of messages in all doors
	mending  *mending     // nil: a damaged store is refused
	missing  []string     // parts that were gone at the start, and began anew

	stateMu sync.Mutex
	state   admin.NodeState // as of stateAt
	stateAt time.Time
}

func newCore(cfg *config.Config, dir string, log *slog.Logger) *core {
	n := &core{dir: dir, log: log, started: clock.Now().UTC(), counted: make(map[string]*countedHouse)}
	n.spared = &spared{core: n}
	n.cfg.Store(cfg)
	return n
}

// startEngine is the first stage of a node.
func (n *Node) startEngine(ctx context.Context, st *stage) error {
	if err := ownFolder(n.dir); err != nil {
		return err
	}
	n.noticeMissing()
	if err := n.open(ctx, false); err != nil {
		return err
	}
	st.close = func(ctx context.Context) error {
		err := n.core.close(ctx)
		n.noteParts()
		return err
	}
	if err := n.weights.open(n.dir); err != nil {
		n.log.Warn("what accounts were worth before is not known", "err", err)
	}
	st.tasks = append(st.tasks, task{name: "weights", run: n.watchWeights}, task{name: "inventory", run: n.keepInventory})
	return nil
}

// open creates the data folder if necessary, and opens its contents. A still node leaves its
// generations unchanged, see [engine.Options].
func (n *core) open(ctx context.Context, still bool) error {
	cfg := asEdge(n.cfg.Load())
	if err := errors.Join(checkSizes(cfg, machineMemory()), ownFolder(n.dir)); err != nil {
		return err
	}
	if err := errors.Join(wholefile.MakeFolder(n.dir), n.closeFolder()); err != nil {
		return err
	}
	var sealKey [32]byte
	if err := errors.Join(n.loadSecrets(), loadKey(n.dir, sealKeyFile, sealKey[:])); err != nil {
		return err
	}
	n.sealer = trust.NewSealer(sealKey)
	n.bookKey = bookKey(sealKey)
	var err error
	if n.hashing, err = hashingOf(cfg, n.secret()); err != nil {
		return err
	}
	n.hashing.KeyNow = func() [16]byte { return n.secret() }
	if err := readLanguages(n.hashing.Rspamd, cfg.Fuzzy.StopWords); err != nil {
		n.log.Warn("languages are not told as by rspamd", "stop_words", cfg.Fuzzy.StopWords, "err", err)
	}
	durability := store.Always
	if cfg.Node.Durability == "relaxed" {
		durability = store.Relaxed
		n.log.Warn("reports are acknowledged before they are on disk: a power cut loses the last second",
			"durability", "relaxed")
	}
	opened := store.Options{Durability: durability, Logger: n.log}
	if n.mending != nil {
		if err := n.setAsideDamaged(cfg); err != nil {
			return err
		}
		opened.Salvage = &store.Salvage{Aside: filepath.Join(n.mending.aside, StoreFolder), Entries: n.mending.entries}
	}
	if n.store, err = store.Open(filepath.Join(n.dir, StoreFolder), opened); err != nil {
		return err
	}
	if err := n.spared.read(); err != nil {
		return errors.Join(err, n.close(ctx))
	}
	opts, err := n.engineOptions(cfg)
	opts.Still = still
	if n.mending != nil {
		opts.Refill = n.mending.refill
	}
	if err == nil {
		n.engine, err = engine.Open(ctx, opts)
	}
	if err == nil {
		err = n.ensureAdmin(ctx)
	}
	if err != nil {
		return errors.Join(err, n.close(ctx))
	}
	n.house = n.remembering(n.engine)
	return nil
}

func (n *core) engineOptions(cfg *config.Config) (engine.Options, error) {
	white, err1 := n.spared.whitelist(cfg)
	tally, block, err2 := booksOf(cfg, machineMemory())
	return engine.Options{
		Secret:          n.secret(),
		Past:            n.past.all,
		Former:          n.past.all[:n.past.former],
		Store:           n.store,
		Tally:           tally,
		Block:           block,
		RevocationFirst: cfg.Blocklist.Order == "revoke-first",
		Threshold:       cfg.Tally.Threshold,
		NearMatch:       cfg.Tally.NearMatch,
		Trust:           policyOf(cfg),
		Whitelist:       white,
		NeverList:       signature.NeverList(),
		CheckpointEvery: time.Duration(cfg.Node.Checkpoint),
		RemoteBytes:     uint64(cfg.Mesh.Memory),
		MaxStep:         engine.StepLimit(tally, block),
		Uptime:          clock.Uptime,
		Now:             clock.Now,
		Log:             n.log,
	}, errors.Join(err1, err2)
}

func tallyOf(cfg *config.Config) engine.BookOptions {
	t := &cfg.Tally
	return engine.BookOptions{
		Generation: time.Duration(t.Generation), Keep: t.Keep, Capacity: uint64(t.Capacity), Error: t.Error,
		Floor: uint32(cfg.Mesh.ShareCounts),
	}
}

func blocklistOf(cfg *config.Config) engine.BookOptions {
	b := &cfg.Blocklist
	return engine.BookOptions{
		Generation: time.Duration(b.Generation), Keep: b.Keep, Capacity: uint64(b.Capacity), Error: b.Error,
		Floor: uint32(cfg.Mesh.ShareVotes),
	}
}

// hashingOf returns how whole messages are signed.
func hashingOf(cfg *config.Config, secret filter.Secret) (signature.Options, error) {
	f := &cfg.Fuzzy
	algorithm, err := rspamd.ParseAlgorithm(f.Algorithm)
	opts := signature.Options{
		Key: secret, Rspamd: rspamd.NewHasher(f.HashKey, f.ShinglesKey, algorithm),
		RspamdPolicy: rspamd.Policy{MinWords: f.MinLength, MinBytes: f.MinBytes},
	}
	if f.MinBytes == 0 {
		opts.RspamdPolicy.MinBytes = -1 // no limit, because 0 would be the default
	}
	return opts, err
}

// readLanguages reads rspamd's stop words from a file, if it exists, and the language models in its
// folder.
func readLanguages(h *rspamd.Hasher, name string) error {
	if name == "" {
		return nil
	}
	file, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	return errors.Join(h.ReadStopWords(file), h.ReadModel(os.DirFS(filepath.Dir(name))))
}

func policyOf(cfg *config.Config) trust.Policy {
	t := cfg.Trust
	return trust.Policy{
		Promotion: t.Promotion, Loopback: t.Loopback, Anonymous: t.Anonymous,
		SelfRegistered: t.SelfRegistered, Ceiling: t.Ceiling, Half: t.Half,
		Accounts: t.Accounts, PerNetwork: t.PerNetwork, IdleDays: t.IdleDays,
	}
}

func whitelistOf(w *config.Whitelist) (*engine.Whitelist, error) {
	return engine.NewWhitelist(engine.WhitelistEntries{
		Senders: w.Senders, Domains: w.Domains, Networks: w.Networks,
		ListIDs: w.ListIDs, DKIM: w.DKIM, Signatures: w.Signatures,
	})
}

// accessOf returns the rights of HTTP clients. The configuration has been validated, so its texts
// parse.
func accessOf(cfg *config.Config) (api.Access, error) {
	a := api.Access{
		MaxBody: cfg.HTTP.MaxBody, MaxSignatures: cfg.Limits.MaxSignatures, MaxBatch: cfg.Limits.MaxBatch,
		Rate:          door.Rate{PerSecond: cfg.Limits.Rate, Burst: cfg.Limits.Burst},
		LimitLoopback: cfg.Limits.Loopback,
	}
	var err1, err2 error
	a.AnonymousCheck, err1 = api.ParseWho(cfg.HTTP.AnonymousCheck)
	a.AnonymousReport, err2 = api.ParseWho(cfg.HTTP.AnonymousReport)
	for _, text := range cfg.HTTP.TrustedProxies {
		p, err := config.ParseNetwork(text)
		if err != nil {
			return a, err
		}
		a.TrustedProxies = append(a.TrustedProxies, p)
	}
	return a, errors.Join(err1, err2)
}

// read returns all signatures of a whole message and its source by its headers.
func (n *core) read(ctx context.Context, raw []byte) ([]bulkhead.Signature, bulkhead.Source, error) {
	return n.readFrom(ctx, raw, "")
}

// readFrom is read for a message with an envelope sender, "" if unknown.
func (n *core) readFrom(ctx context.Context, raw []byte, sender string) ([]bulkhead.Signature, bulkhead.Source, error) {
	return n.readVerified(ctx, raw, sender, nil, "")
}

// readVerified is readFrom with the domains that the door has verified, as in
// [mail.Message.SourceVerified].
func (n *core) readVerified(ctx context.Context, raw []byte, sender string, dkim []string,
	spf string) ([]bulkhead.Signature, bulkhead.Source, error) {
	m, err := mail.Read(ctx, raw)
	if err != nil {
		return nil, bulkhead.Source{}, err
	}
	opts := n.hashing
	opts.AboveFloor = true
	sigs, err := signature.Compute(mail.WithMessage(ctx, m), m.Raw, opts)
	if err != nil {
		return nil, bulkhead.Source{}, err
	}
	return sigs, m.SourceVerified(n.cfg.Load().Whitelist.AuthResults, sender, dkim, spf), nil
}

// cleared reports whether the whitelist has a message, by its envelope sender, its client and its
// header, and if signatures is set by its signatures. An unreadable message is not on it. The error
// is ctx.Err().
func (n *core) cleared(ctx context.Context, raw []byte, sender string, client netip.Addr,
	signatures bool) (bool, error) {
	m, err := mail.Read(ctx, raw)
	if err != nil {
		return false, ctx.Err()
	}
	source := m.SourceBy(n.cfg.Load().Whitelist.AuthResults, sender)
	source.Client = client
	var sigs []bulkhead.Signature
	if signatures {
		if sigs, err = signature.Compute(mail.WithMessage(ctx, m), m.Raw, n.hashing); err != nil {
			return false, err
		}
	}
	return n.engine.Whitelisted(&source, sigs) != "", nil
}

// ready returns why the node currently accepts no requests, or nil.
func (n *core) ready() error {
	if n.draining.Load() {
		return errors.New("the node is stopping")
	}
	return nil
}

// prepare checks the parts of a new configuration that a running node can apply. It returns a
// function that applies them.
func (n *core) prepare(cfg *config.Config) (takeOver func() error, err error) {
	if _, err := whitelistOf(&cfg.Whitelist); err != nil {
		return nil, err
	}
	policy := policyOf(cfg)
	if err := policy.Validate(); err != nil {
		return nil, err
	}
	return func() error {
		n.engine.SetThreshold(cfg.Tally.Threshold)
		n.cfg.Store(cfg)
		return errors.Join(n.engine.SetTrust(policy), n.spared.renew())
	}, nil
}

// close writes the last snapshot and releases the data folder.
func (n *core) close(ctx context.Context) error {
	var err error
	if n.engine != nil {
		if err = n.engine.Close(ctx); err == nil && n.engine.Refusing() == nil {
			err = n.forgetSecrets()
		}
	}
	if n.store != nil {
		err = errors.Join(err, n.store.Close())
	}
	return err
}

// stateAge is the maximum age of the node's description. Making it reads the arrays, which takes
// milliseconds.
const stateAge = time.Second

// State implements [api.Node].
func (n *core) State(context.Context) admin.NodeState {
	n.stateMu.Lock()
	defer n.stateMu.Unlock()
	if n.stateAt.IsZero() || clock.Since(n.stateAt).Abs() > stateAge {
		n.state, n.stateAt = n.describe(), clock.Now()
	}
	return n.state
}

func (n *core) describe() admin.NodeState {
	state := n.describeEngine()
	state.Disk = diskOf(n.dir)
	if state.Disk != nil {
		for _, b := range state.Books {
			state.Disk.Needed += b.Bytes
		}
	}
	return state
}

func (n *core) describeEngine() admin.NodeState {
	cfg, info := n.cfg.Load(), n.engine.Info()
	name := cfg.Node.Name
	if name == "" {
		name, _ = os.Hostname() // "" is as good as any other guess
	}
	return admin.NodeState{
		Name: name, Version: n.version, Network: fingerprint(n.secret()), Started: n.started, Now: clock.Now().UTC(),
		Durability: cfg.Node.Durability, ReadOnly: info.Refusing, Threshold: info.Threshold,
		Ageing: ageingState(n.engine.Ageing()), Mature: info.Mature, Accounts: info.Accounts, Doors: n.doors,
		Doubts: doubtsOf(info.Doubts), Healed: healedBy(info.Healings), Missing: n.missing,
		Counters: admin.Counters{
			Checks: info.Checks, Reports: info.Reports, Refused: info.Refused, Entries: info.Entries,
			Checkpoints: info.Checkpoints, Recoveries: info.Recoveries, Forgotten: info.Forgotten,
			Gatherings: info.Gatherings,
		},
		Books: []admin.Book{
			bookState("tally", info.Tally, time.Duration(cfg.Tally.Generation)),
			bookState("blocklist", info.Blocklist, time.Duration(cfg.Blocklist.Generation)),
		},
	}
}

// ageingState describes the ageing while it is held; nil while it is not.
func ageingState(a engine.Ageing) *admin.Ageing {
	if !a.Held {
		return nil
	}
	return &admin.Ageing{Newest: a.Newest.UTC(), Now: a.Now.UTC(), Clock: a.Clock.UTC(), Tally: a.Tally,
		Blocklist: a.Blocklist}
}

// ConfirmClock implements [api.Node].
func (n *core) ConfirmClock(ctx context.Context) error {
	err := n.engine.ConfirmClock(ctx)
	n.stateMu.Lock()
	defer n.stateMu.Unlock()
	n.stateAt = time.Time{}
	return err
}

func bookState(name string, generations []engine.GenerationInfo, length time.Duration) admin.Book {
	b := admin.Book{Name: name, Generations: []admin.Generation{}}
	for _, g := range generations {
		out := admin.Generation{Start: g.Start, End: g.Start.Add(length), Capacity: g.Capacity}
		for _, a := range g.Arrays {
			out.Arrays = append(out.Arrays, admin.Array{
				Name: a.Name, Geometry: a.Geometry, Bytes: a.Bytes, Keys: a.Keys, Fill: a.Fill,
				Ghost: a.Ghost, Wrong: a.CountWrong, Bulk: a.BulkWrong,
			})
			b.Bytes += a.Bytes
		}
		b.Generations = append(b.Generations, out)
	}
	return b
}
