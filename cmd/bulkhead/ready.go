package main

import (
	"crypto/tls"
	"errors"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// healthTimeout is shorter than the timeout of the image's health check, so that the command itself
// can report what is wrong.
const healthTimeout = 4 * time.Second

// readiness is the answer as --json prints it.
type readiness struct {
	Server string `json:"server"`
	Ready  bool   `json:"ready"`
	Error  string `json:"error,omitempty"`
}

func newReadyCommand() *cobra.Command {
	var r command.Remote
	var configPath string
	cmd := &cobra.Command{
		Use:   "ready",
		Short: "Ask whether a node takes requests",
		Long: "Ask whether a node takes requests, for health checks of containers and for scripts.\n" +
			"The exit code is 0 if it does, 69 if no node answers, and 75 if it is stopping. With\n" +
			"--config, ask the node on this machine that has this configuration, whatever its\n" +
			"certificate says.",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.Client()
			if err == nil && configPath != "" {
				if cmd.Flags().Changed("server") {
					return cli.Usagef("--server and --config both name a node")
				}
				c, err = ownNode(configPath)
			}
			if err != nil {
				return err
			}
			c.Token, c.HTTP.Timeout = "", r.Timeout // the answer needs no account
			err = c.Ready(cmd.Context())
			if r.JSON {
				answer := readiness{Server: c.Server, Ready: err == nil}
				if err != nil {
					answer.Error = err.Error()
				}
				err = errors.Join(err, command.PrintJSON(cmd.OutOrStdout(), []readiness{answer}))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&r.Server, "server", "",
		"`URL` of the node (default: the node of this machine, by its socket,\nelse "+command.DefaultServer+")")
	cmd.Flags().StringVar(&configPath, "config", "", "configuration `FILE` of a node on this machine")
	command.JSONFlag(cmd.Flags(), &r.JSON)
	cmd.Flags().DurationVar(&r.Timeout, "timeout", healthTimeout, "longest time that the answer may take")
	return cmd
}

// ownNode returns a client for the node of this machine that has the given configuration file. The
// client sends no secrets, so it accepts any certificate.
func ownNode(path string) (*admin.Client, error) {
	cfg, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	address, err := command.OwnAddress(cfg.Listen.HTTP)
	if err != nil {
		return nil, err
	}
	scheme := "http://"
	if cfg.HTTP.TLSCert != "" {
		scheme = "https://"
	}
	return &admin.Client{Client: client.Client{Server: scheme + address, HTTP: &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}}}, nil
}
