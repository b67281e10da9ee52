package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/calibration"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
	"github.com/bulkhead-mail/bulkhead/internal/logbook"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/mesh"
	"github.com/bulkhead-mail/bulkhead/internal/node/doors"
	"github.com/bulkhead-mail/bulkhead/internal/node/manage"
	"github.com/bulkhead-mail/bulkhead/internal/node/pair"
	"github.com/bulkhead-mail/bulkhead/internal/recent"
	"github.com/bulkhead-mail/bulkhead/internal/standby"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/store/stream"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
	"github.com/bulkhead-mail/bulkhead/internal/units"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// A core is an open data folder: the engine with its store and secrets, and what stands in front of
// it for all doors.
type core struct {
	cfg       atomic.Pointer[config.Config]
	dir       string
	log       *slog.Logger
	started   time.Time
	engine    *engine.Engine
	store     *store.Store
	journal   *stream.Journal // nil: the store has the only journal
	sealer    *trust.Sealer
	bookKey   logbook.Key // of the hashes in the history
	secrets   secrets
	hashing   signature.Options // how whole messages are signed
	whitelist *manage.Whitelist // an administrator's entries
	front     front
	mending   *mending   // nil: a damaged store is refused
	pair      *pair.Pair // nil: the folder is not opened by a running node
	// network returns the mesh of a running node; nil: the folder is not opened by one.
	network func() (*mesh.Mesh, error)
	missing []string // parts that were missing at the start, and began anew
}

// A front is what the doors ask: the engine or the edge, behind the memory of recent messages.
type front struct {
	house       bulkhead.Counter
	judge       bulkhead.Counter   // the engine or edge itself
	recent      *recent.Table      // recent messages; nil for none
	joining     *recent.House      // completes digests from recent, before engine or edge
	deliveries  *recent.Deliveries // nil if none are remembered
	archive     *archive           // deliveries that the memory has forgotten
	calibration *calibration.House // nil on an edge
}

func newCore(cfg *config.Config, dir string, log *slog.Logger) *core {
	n := &core{dir: dir, log: log, started: clock.Now().UTC()}
	n.whitelist = manage.NewWhitelist(dir, n.cfg.Load, func(w *engine.Whitelist) { n.engine.SetWhitelist(w) })
	n.cfg.Store(cfg)
	return n
}

// startEngine is the first stage of a node.
func (n *Node) startEngine(ctx context.Context, st *stage) error {
	if err := errors.Join(checkSizes(asEdge(n.cfg.Load()), machineMemory()), ownFolder(n.dir)); err != nil {
		return err
	}
	if err := wholefile.MakeFolder(n.dir); err != nil {
		return err
	}
	release, err := lockFolder(n.dir)
	if err != nil {
		return err
	}
	st.close = func(context.Context) error { return release() }
	if n.mending != nil {
		if found, err := store.Inspect(ctx, filepath.Join(n.dir, StoreFolder)); err == nil && len(found.Faults) > 0 {
			if _, err := standby.CopyAnew(n.dir); err != nil {
				return err
			}
		}
	}
	if err := n.openPair(ctx); err != nil {
		return err
	}
	n.noticeMissing()
	if err := n.noticeLostStore(); err != nil {
		return err
	}
	if err := n.open(ctx, false); err != nil {
		return err
	}
	st.close = func(ctx context.Context) error {
		err := n.core.close(ctx)
		n.noteParts()
		return errors.Join(err, release())
	}
	n.accounts = manage.NewAccounts(manage.AccountsOptions{Engine: n.engine, Sealer: n.sealer,
		CheckSecret: doors.CheckSecret, Log: n.log})
	if err := n.accounts.OpenWeights(n.dir); err != nil {
		n.log.Warn("former weights of accounts cannot be read", "err", err, "consequence", "their chart begins anew")
	}
	n.state = manage.NewState(manage.StateOptions{Dir: n.dir, Version: n.version, Started: n.started, Engine: n.engine,
		Missing: n.missing, Config: n.cfg.Load, Network: func() string { return fingerprint(n.secret()) },
		Doors: n.doors.Addresses, Joined: n.front.joins,
		Calibration: n.front.calibration, Standby: n.pair.State, Promote: n.pair.Promote,
		Journal: func() *admin.Journal { return pair.JournalState(n.journal) },
		Shards:  func() *admin.Shards { return n.upstream.State() }})
	n.registry.MustRegister(pair.JournalCollector(n.journal))
	st.tasks = append(st.tasks, task{name: "weights", run: n.accounts.WatchWeights},
		task{name: "inventory", run: n.keepInventory})
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
		n.log.Warn("stop words or language models of rspamd cannot be read", "file", cfg.Fuzzy.StopWords, "err", err,
			"consequence", "languages are not recognised as rspamd recognises them")
	}
	durability := store.Always
	if cfg.Node.Durability == "relaxed" {
		durability = store.Relaxed
		n.log.Warn("reports are acknowledged before they are on disk", "durability", "relaxed",
			"consequence", "a power cut loses the last second")
	}
	opened := store.Options{Durability: durability, Logger: n.log, Former: func(meta []byte) string {
		if format := engine.Former(meta); format != 0 {
			return filepath.Join(n.dir, setAsideFolder, fmt.Sprintf("store-of-format-%d", format))
		}
		return ""
	}}
	if n.mending != nil {
		if err := n.setAsideDamaged(cfg); err != nil {
			return err
		}
		opened.Salvage = &store.Salvage{Aside: filepath.Join(n.mending.aside, StoreFolder), Entries: n.mending.entries}
	}
	if n.store, err = store.Open(filepath.Join(n.dir, StoreFolder), opened); err != nil {
		return err
	}
	if n.journal, err = pair.OpenJournal(cfg, sealKey, n.log); err != nil {
		return errors.Join(err, n.close(ctx))
	}
	if err := n.whitelist.Read(); err != nil {
		return errors.Join(err, n.close(ctx))
	}
	opts, err := n.engineOptions(cfg)
	opts.Still = still
	if n.journal != nil {
		opts.Shared = n.journal
		opts.CheckpointBytes = uint64(min(256<<20, cfg.Journal.MaxBytes/4))
	}
	n.pair.Attach(n.store, &opts)
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
	n.front.house = n.remembering(n.calibrated())
	return nil
}

func (n *core) engineOptions(cfg *config.Config) (engine.Options, error) {
	white, err1 := n.whitelist.With(cfg)
	tally, block, err2 := booksOf(cfg, machineMemory())
	return engine.Options{
		Secret:          n.secret(),
		Past:            n.secrets.past.all,
		Former:          n.secrets.past.all[:n.secrets.past.former],
		Store:           n.store,
		Tally:           tally,
		Block:           block,
		RevocationFirst: cfg.Blocklist.Order == "revoke-first",
		Threshold:       cfg.Tally.Threshold,
		NearMatch:       cfg.Tally.NearMatch,
		WantedLost:      &cfg.Judgement.WantedLost,
		Trust:           policyOf(cfg),
		Whitelist:       white,
		NeverList:       signature.NeverList(),
		CheckpointEvery: time.Duration(cfg.Node.Checkpoint),
		RemoteBytes:     uint64(cfg.Mesh.Memory),
		LearnBytes:      learnBytes(cfg),
		Teach:           cfg.Learn.Share,
		LearnCondemns:   cfg.Learn.Condemn,
		Recover:         func() bool { return mesh.Recovering(filepath.Join(n.dir, meshFolder)) },
		MaxStep:         engine.StepLimit(tally, block),
		SetAside:        filepath.Join(n.dir, setAsideFolder, agedFolder),
		Plausible:       n.confirmsClock,
		Uptime:          clock.Uptime,
		Now:             clock.Now,
		Log:             n.log,
	}, errors.Join(err1, err2)
}

// confirmsClock returns what confirms a time of the machine's clock: the system's synchronisation, or
// more than half of the peers that were heard lately.
func (n *core) confirmsClock(wall time.Time) (by string) {
	if clock.Synchronized() {
		return "NTP"
	}
	if n.network == nil {
		return ""
	}
	m, err := n.network()
	if err != nil {
		return ""
	}
	if agree, all := m.Clocks(wall); 2*agree > all {
		return units.Plural(agree, "peer")
	}
	return ""
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

// messages reads whole messages for the doors: [doors.Messages].
type messages struct{ core *core }

// Read implements [doors.Messages].
func (m messages) Read(ctx context.Context, raw []byte) ([]bulkhead.Signature, bulkhead.Source, error) {
	return m.ReadVerified(ctx, raw, "", nil, "")
}

// ReadSigned is Read for a message of which the caller has verified DKIM signatures of some domains.
func (m messages) ReadSigned(ctx context.Context, raw []byte, dkim []string) ([]bulkhead.Signature, bulkhead.Source,
	error) {
	signers := make([]string, 0, len(dkim))
	for _, name := range dkim {
		signers = append(signers, strings.ToLower(name)) // as SourceVerified compares them
	}
	return m.ReadVerified(ctx, raw, "", signers, "")
}

// ReadVerified implements [doors.Messages].
func (m messages) ReadVerified(ctx context.Context, raw []byte, sender string, dkim []string,
	spf string) ([]bulkhead.Signature, bulkhead.Source, error) {
	message, err := mail.Read(ctx, raw)
	if err != nil {
		return nil, bulkhead.Source{}, err
	}
	opts := m.core.hashing
	opts.AboveFloor = true
	sigs, err := signature.Compute(mail.WithMessage(ctx, message), message.Raw, opts)
	if err != nil {
		return nil, bulkhead.Source{}, err
	}
	cfg := m.core.cfg.Load()
	source := message.SourceVerified(cfg.Whitelist.AuthResults, sender, dkim, spf)
	if learns(cfg) {
		if source.Features, err = learn.Counting(ctx, message, m.core.engine.Secret()); err != nil {
			return nil, bulkhead.Source{}, err
		}
	}
	return sigs, source, nil
}

// Features implements [doors.Messages].
func (m messages) Features(ctx context.Context, raw []byte) ([]string, error) {
	if !learns(m.core.cfg.Load()) {
		return nil, nil
	}
	message, err := mail.Read(ctx, raw)
	if err != nil {
		return nil, err
	}
	return learn.Counting(ctx, message, m.core.engine.Secret())
}

// learns reports whether the node learns words and style. An edge learns nothing: its node would have
// to be sent the words.
func learns(cfg *config.Config) bool { return cfg.Learn.Enabled && !cfg.IsEdge() }

// learnBytes returns the memory for what a node learns, 0 if it does not learn.
func learnBytes(cfg *config.Config) uint64 {
	if !learns(cfg) {
		return 0
	}
	return uint64(cfg.Learn.Memory)
}

// Cleared implements [doors.Messages]. An unreadable message is not on the whitelist. The error is
// ctx.Err().
func (m messages) Cleared(ctx context.Context, raw []byte, sender string, client netip.Addr,
	signatures bool) (bool, error) {
	message, err := mail.Read(ctx, raw)
	if err != nil {
		return false, ctx.Err()
	}
	source := message.SourceBy(m.core.cfg.Load().Whitelist.AuthResults, sender)
	source.Client = client
	var sigs []bulkhead.Signature
	if signatures {
		if sigs, err = signature.Compute(mail.WithMessage(ctx, message), message.Raw, m.core.hashing); err != nil {
			return false, err
		}
	}
	return m.core.engine.Whitelisted(&source, sigs) != "", nil
}

// prepare checks the parts of a new configuration that a running node can apply. It returns a
// function that applies them.
func (n *core) prepare(cfg *config.Config) (takeOver func() error, err error) {
	if _, err := manage.WhitelistOf(&cfg.Whitelist); err != nil {
		return nil, err
	}
	policy := policyOf(cfg)
	if err := policy.Validate(); err != nil {
		return nil, err
	}
	return func() error {
		n.engine.SetThreshold(cfg.Tally.Threshold)
		n.engine.SetWantedLost(cfg.Judgement.WantedLost)
		n.cfg.Store(cfg)
		return errors.Join(n.engine.SetTrust(policy), n.whitelist.Renew())
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
	if n.journal != nil {
		err = errors.Join(err, n.journal.Close())
	}
	if n.store != nil {
		err = errors.Join(err, n.store.Close())
	}
	return err
}
