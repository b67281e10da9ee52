package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/api"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/listen"
	"github.com/bulkhead-mail/bulkhead/internal/web"
)

// doors is every front door of this build, one line each.
func (s *server) doors() []door {
	return []door{
		{"http", "API and status page", s.openHTTP},
		{"razor2", "Razor 2 clients", s.openRazor2},
		{"razor_helper", "rspamd's razor module", s.openRazorHelper},
		{"pyzor", "Pyzor clients", s.openPyzor},
		{"pyzor_helper", "rspamd's pyzor module", s.openPyzorHelper},
		{"dcc", "DCC clients", s.openDCC},
		{"dccifd", "SpamAssassin, rspamd and Exim, as dccifd", s.openDccifd},
		{"fuzzy", "rspamd's fuzzy_check", s.openFuzzy},
		{"milter", "Postfix and Sendmail", s.openMilter},
		{"policy", "Postfix policy delegation", s.openPolicy},
		{"dnsbl", "lists through DNS", s.openDNSBL},
	}
}

// A server is a node with its doors.
type server struct {
	*node
	configPath string
	level      *slog.LevelVar
	api        *api.Server
	mta        *mta
	book       *accounts // one for all doors: its lock orders their changes
	peers      peers     // that the node shares with
	doorStats  *doorCollector
	rate       listen.Source // of a client of any front door but HTTP, which has its own
	https      certificate   // empty while HTTP is plain
}

func newServeCommand() *cobra.Command {
	var configPath, data string
	cmd := &cobra.Command{
		Use:   "serve [--config FILE] [--data DIR]",
		Short: "Run a node",
		Long: "Run a node. Without a configuration file every front door listens on the loopback\n" +
			"address and its standard port. SIGHUP reads the configuration again; SIGTERM and\n" +
			"Ctrl-C finish what was begun, write a snapshot and end the node.",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg := config.Default()
			if configPath != "" {
				var err error
				if cfg, err = config.Load(configPath); err != nil {
					return err
				}
			}
			s := &server{configPath: configPath, level: new(slog.LevelVar)}
			log := newLogger(cmd.ErrOrStderr(), cfg, s.level)
			return s.run(cmd.Context(), cfg, dataFolder(data, cfg.Node.Data), log, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&configPath, "config", "", "configuration `FILE`; see \"bulkhead config reference\"")
	cmd.Flags().StringVar(&data, "data", "", "`FOLDER` of the node's state (default: node.data, else $STATE_DIRECTORY, else ./bulkhead-data)")
	return cmd
}

func newLogger(w io.Writer, cfg *config.Config, level *slog.LevelVar) *slog.Logger {
	setLevel(level, cfg)
	opts := &slog.HandlerOptions{Level: level}
	if cfg.Node.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

func setLevel(level *slog.LevelVar, cfg *config.Config) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(cfg.Node.LogLevel)); err == nil { // it was validated
		level.Set(l)
	}
}

// stopTimeout is the longest that clients may take to finish after SIGTERM.
const stopTimeout = 20 * time.Second

// run opens the node and its doors, serves until a signal, and closes both.
func (s *server) run(ctx context.Context, cfg *config.Config, dir string, log *slog.Logger, out io.Writer) (err error) {
	stopping, reloading, done := listenSignals()
	defer done()
	if s.node, err = openNode(ctx, cfg, dir, log); err != nil {
		return err
	}
	// The last snapshot is written even if ctx has ended.
	defer func() { err = errors.Join(err, s.node.close(context.WithoutCancel(ctx))) }()

	s.book = &accounts{node: s.node}
	s.doorStats = newDoorCollector()
	serving, stop := context.WithCancel(ctx)
	defer stop()
	if s.mta, err = s.openMTA(cfg); err != nil {
		return err
	}
	// Once more when all doors are shut: they count until then.
	defer func() { err = errors.Join(err, s.mta.limits.Save()) }()
	s.rate.Set(doorLimits(cfg.Limits))
	open, err := s.openDoors(serving, cfg)
	if err != nil {
		return err
	}
	open = append(open, s.mta.loops()...)
	sharing, stopSharing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSharing()
	peers, err := s.openMesh(sharing, cfg)
	if err != nil {
		return err
	}
	failed := make(chan error, len(open)+len(peers))
	var doors, mesh sync.WaitGroup
	// Sharing ends last: peers are told what the doors took until they were shut.
	defer mesh.Wait()
	defer stopSharing()
	defer doors.Wait()
	defer stop()
	for _, o := range peers {
		mesh.Go(func() { failed <- o.serve(sharing) })
	}
	for _, o := range open {
		doors.Go(func() { failed <- o.serve(serving) })
	}
	writeBanner(out, s.configPath == "", s.node)
	s.log.Info("serving", "version", version(), "data", dir, "durability", cfg.Node.Durability, "doors", doorList(s.node.doors))
	notifySystemd("READY=1")
	for {
		select {
		case <-reloading:
			s.hup()
		case sig := <-stopping:
			select {
			case <-reloading: // asked for earlier: its mistakes belong into the log
				s.hup()
			default:
			}
			s.log.Info("stopping", "signal", sig.String())
			s.draining.Store(true)
			notifySystemd("STOPPING=1")
			signal.Stop(stopping) // a second signal ends the process at once
			return nil
		case err := <-failed:
			if err != nil {
				return err
			}
			return errors.New("a front door closed by itself")
		case <-ctx.Done():
			return nil
		}
	}
}

// listenSignals returns where the signals arrive that end the node, and those that
// make it read its configuration again, until done is called. They do not share a
// place: one that waits would keep the other out.
func listenSignals() (stop, reload chan os.Signal, done func()) {
	stop, reload = make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	signal.Notify(reload, syscall.SIGHUP)
	return stop, reload, func() {
		signal.Stop(stop)
		signal.Stop(reload)
	}
}

// openDoors binds every door that is on. Without a configuration file a door
// whose port is taken stays shut, except the HTTP one.
func (s *server) openDoors(ctx context.Context, cfg *config.Config) ([]*opened, error) {
	addresses := make(map[string]string)
	for _, d := range cfg.Listen.Doors() {
		addresses[d.Key] = d.Address
	}
	var open []*opened
	for _, d := range s.doors() {
		address := addresses[d.key]
		delete(addresses, d.key)
		if address == "" {
			continue
		}
		o, err := d.open(ctx, address)
		if err != nil && s.configPath == "" && d.key != "http" && errors.Is(err, syscall.EADDRINUSE) {
			s.log.Warn("front door stays shut: another program has its port", "door", d.key, "address", address)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listen.%s: %w", d.key, err)
		}
		open = append(open, o)
		s.node.doors = append(s.node.doors, api.Door{Name: d.key, Address: o.address})
	}
	for _, d := range cfg.Listen.Doors() {
		if s.configPath != "" && addresses[d.Key] != "" {
			return nil, &config.Error{Key: "listen." + d.Key, Detail: "this build has no such front door"}
		}
	}
	if len(open) == 0 {
		return nil, &config.Error{Key: "listen", Detail: "no front door is on"}
	}
	return open, nil
}

func (s *server) openHTTP(ctx context.Context, address string) (*opened, error) {
	cfg := s.cfg.Load()
	access, err := accessOf(cfg)
	if err != nil {
		return nil, err
	}
	pair, err := readCertificate(cfg)
	if err != nil {
		return nil, err
	}
	page, err := web.New(statusPage{s})
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	if err := errors.Join(registry.Register(newMTACollector(s.mta)), registry.Register(s.doorStats)); err != nil {
		return nil, err
	}
	s.api, err = api.New(api.Options{
		Registry:      registry,
		Clearinghouse: s.engine, Read: s.read, Accounts: s.book, Users: s.book, Peers: &s.peers, Node: s.node,
		RateLimits: mtaAPI{s.mta}, Lists: mtaAPI{s.mta},
		Ready: s.ready, Page: page, Access: access, Version: version(), Log: s.log,
	})
	if err != nil {
		return nil, err
	}
	l, err := listen.Stream(ctx, address)
	if err != nil {
		return nil, err
	}
	front := &http.Server{
		Handler:           s.api,
		ReadHeaderTimeout: min(10*time.Second, time.Duration(cfg.HTTP.ReadTimeout)),
		ReadTimeout:       time.Duration(cfg.HTTP.ReadTimeout),
		WriteTimeout:      2 * time.Duration(cfg.HTTP.ReadTimeout),
		IdleTimeout:       time.Duration(cfg.HTTP.IdleTimeout),
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	serve, scheme := front.Serve, "http://"
	if pair != nil {
		s.https.pair.Store(pair)
		scheme, front.TLSConfig = "https://", s.https.config()
		serve = func(l net.Listener) error { return front.ServeTLS(l, "", "") }
	}
	return &opened{address: scheme + l.Addr().String(), serve: func(ctx context.Context) error {
		return serveHTTP(ctx, front, func() error { return serve(newCappedListener(l, cfg.Limits.Connections, listen.DefaultConnsPerIP)) })
	}}, nil
}

// serveHTTP serves until ctx ends, and then waits for the requests that were
// begun.
func serveHTTP(ctx context.Context, front *http.Server, serve func() error) error {
	done := make(chan error, 1)
	go func() { done <- serve() }()
	select {
	case err := <-done:
		return fmt.Errorf("listen.http: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := front.Shutdown(drain)
	if errors.Is(err, context.DeadlineExceeded) {
		err = front.Close()
	}
	if end := <-done; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// hup reads the configuration again and takes over what a running node can. A
// mistake in the file changes nothing.
func (s *server) hup() {
	if s.configPath == "" {
		s.log.Warn("SIGHUP: this node was started without a configuration file; nothing to reload")
		return
	}
	cfg, err := config.Load(s.configPath)
	if err != nil {
		s.log.Error("SIGHUP: the configuration has a mistake; nothing was changed", "err", err)
		return
	}
	reloaded, restart := config.Changed(s.cfg.Load(), cfg)
	takeOver, err := s.prepare(config.Reloaded(s.cfg.Load(), cfg))
	if err != nil {
		s.log.Error("SIGHUP: nothing was changed", "err", err)
		return
	}
	if err := takeOver(); err != nil {
		s.log.Error("SIGHUP: configuration reloaded in part", "err", err)
		return
	}
	s.log.Info("SIGHUP: configuration reloaded", "changed", reloaded, "need_restart", restart)
}

// prepare judges all that a running server can take over of a configuration, and
// returns what does so: only what was found right is begun.
func (s *server) prepare(cfg *config.Config) (takeOver func() error, err error) {
	access, err := accessOf(cfg)
	if err != nil {
		return nil, err
	}
	pair, err := readCertificate(cfg)
	if err != nil {
		return nil, err
	}
	mta, err := s.mta.prepare(cfg)
	if err != nil {
		return nil, err
	}
	node, err := s.node.prepare(cfg)
	if err != nil {
		return nil, err
	}
	return func() error {
		err := errors.Join(mta(), node())
		setLevel(s.level, cfg)
		s.rate.Set(doorLimits(cfg.Limits))
		if s.api != nil {
			s.api.SetAccess(access)
			s.https.pair.Store(pair)
		}
		return err
	}, nil
}

func doorList(doors []api.Door) string {
	var list []string
	for _, d := range doors {
		list = append(list, d.Name+"="+d.Address)
	}
	return strings.Join(list, " ")
}

// notifySystemd tells a service manager of the node's state, if there is one;
// see sd_notify(3). Nobody listening is no error.
func notifySystemd(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if conn, err := net.Dial("unixgram", path); err == nil {
		conn.Write([]byte(state))
		conn.Close()
	}
}
