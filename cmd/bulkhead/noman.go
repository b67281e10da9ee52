//go:build !man

package main

import "github.com/spf13/cobra"

// manCommands returns none: see man.go.
func manCommands() []*cobra.Command { return nil }
