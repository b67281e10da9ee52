package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/node"
)

func newServeCommand() *cobra.Command {
	var configPath, data string
	var salvage bool
	cmd := &cobra.Command{
		Use:   "serve [--config FILE] [--data DIR]",
		Short: "Run a node",
		Long: "Run a node. Without a configuration file, every front door listens on the loopback\n" +
			"address and its standard port. SIGHUP reads the configuration again. SIGTERM and\n" +
			"Ctrl-C finish pending work, write a snapshot and stop the node.",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := command.LoadConfig(configPath)
			if err != nil {
				return err
			}
			s := &server{configPath: configPath, salvage: salvage, level: new(slog.LevelVar)}
			s.log = command.NewLogger(cmd.ErrOrStderr(), cfg, s.level)
			for {
				err := s.run(cmd.Context(), cfg, command.DataFolder(data, cfg.Node.Data), cmd.OutOrStdout())
				if !errors.Is(err, node.ErrReopen) {
					return err
				}
				s.log.Warn("opening the node again", "why", err)
			}
		},
	}
	cmd.Flags().StringVar(&configPath, "config", "", "configuration `FILE`; see \"bulkhead config reference\"")
	cmd.Flags().StringVar(&data, "data", "",
		"`FOLDER` of the node's state (default: node.data, else $STATE_DIRECTORY, else ./bulkhead-data)")
	cmd.Flags().BoolVar(&salvage, "salvage", false,
		"start with what can be read of a damaged store; see \"bulkhead doctor\"")
	return cmd
}

// A server runs a node and handles the signals of its process.
type server struct {
	configPath string // "" for none
	salvage    bool
	level      *slog.LevelVar
	log        *slog.Logger
	node       *node.Node
}

// run opens the node, serves until a signal, and closes it.
func (s *server) run(ctx context.Context, cfg *config.Config, dir string, out io.Writer) error {
	stopping, reloading, done := listenSignals()
	defer done()
	if limit := node.LimitMemory(); limit > 0 {
		s.log.Debug("memory limit", "bytes", limit)
	}
	newcomer := s.configPath == ""
	var err error
	o := node.Options{Config: cfg, Dir: dir, Socket: command.Socket(dir), Version: version(),
		Spare: newcomer, Salvage: s.salvage, Log: s.log}
	if !newcomer {
		o.Reread = s.reload
		o.File = func() (*config.Config, error) { return config.Load(s.configPath) }
	}
	s.node, err = node.Open(ctx, o)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go node.LimitGarbage(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.node.Serve(ctx) }()
	writeBanner(out, newcomer, s.node, cfg, dir)
	s.log.Info("serving", "version", version(), "data", dir, "durability", cfg.Node.Durability, "doors",
		doorList(s.node.Doors()))
	notifySystemd("READY=1")
	for {
		select {
		case <-reloading:
			s.hup()
		case sig := <-stopping:
			select {
			case <-reloading: // already requested: its errors go to the log
				s.hup()
			default:
			}
			s.log.Info("stopping", "signal", sig.String())
			notifySystemd("STOPPING=1")
			signal.Stop(stopping) // a second signal ends the process at once
			stop()
			return <-ended
		case err := <-ended:
			return err
		}
	}
}

// listenSignals returns two channels, valid until done is called: one for signals that stop the
// node, and one for signals that reload its configuration. The kinds have separate channels,
// because a waiting signal would block the other kind.
func listenSignals() (stop, reload chan os.Signal, done func()) {
	stop, reload = make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	signal.Notify(reload, syscall.SIGHUP)
	return stop, reload, func() {
		signal.Stop(stop)
		signal.Stop(reload)
	}
}

// hup reloads the configuration and applies the settings that a running node can change. A mistake
// in the file changes nothing.
func (s *server) hup() {
	if s.configPath == "" {
		s.log.Warn("SIGHUP: this node was started without a configuration file",
			"consequence", "nothing is reloaded")
		return
	}
	changed, restart, err := s.reload()
	s.node.Reloaded(changed, restart, err)
	var mistake fileError
	switch {
	case errors.Is(err, node.ErrInPart):
		s.log.Error("SIGHUP: configuration reloaded in part", "err", err)
	case errors.As(err, &mistake):
		s.log.Error("SIGHUP: the configuration has a mistake", "err", err, "consequence", "nothing was changed")
	case err != nil:
		s.log.Error("SIGHUP: nothing was changed", "err", err)
	default:
		s.log.Info("SIGHUP: configuration reloaded", "changed", changed, "need_restart", restart)
	}
}

// A fileError is the error for a configuration file that cannot be read or has mistakes.
type fileError struct{ error }

func (e fileError) Unwrap() error { return e.error }

// reload reads the configuration file and applies the settings that a running node can change.
// After an error nothing has changed, unless the error is node.ErrInPart.
func (s *server) reload() (changed, restart []string, err error) {
	cfg, err := config.Load(s.configPath)
	if err != nil {
		return nil, nil, fileError{err}
	}
	changed, restart, err = s.node.Reload(cfg)
	if err == nil || errors.Is(err, node.ErrInPart) {
		command.SetLevel(s.level, cfg)
	}
	return changed, restart, err
}

func doorList(doors []admin.Door) string {
	var list []string
	for _, d := range doors {
		list = append(list, d.Name+"="+d.Address)
	}
	return strings.Join(list, " ")
}

// notifySystemd reports the node's state to a service manager; see sd_notify(3). It does nothing if
// there is no service manager.
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
