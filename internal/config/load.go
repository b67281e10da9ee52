package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// maxFile is the largest configuration file that is read, in bytes.
const maxFile = 4 << 20

// An Error is one mistake in a configuration file.
type Error struct {
	Line   int    // line of the file, from 1; 0 if the key is absent from it
	Key    string // dotted key, for example "listen.pyzor"; "" if unknown
	Detail string // what is wrong, with the value and its limit
}

// Error returns for example `config: line 12: listen.pyzor: "24441" is not host:port`.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("config: ")
	if e.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", e.Line)
	}
	if e.Key != "" {
		fmt.Fprintf(&b, "%s: ", e.Key)
	}
	b.WriteString(e.Detail)
	return b.String()
}

// Load reads and validates the file at path; see [Parse].
func Load(path string) (*Config, error) {
	cfg, err := Inspect(path)
	if err != nil {
		return nil, err
	}
	return cfg, nil
}

// Inspect is [Load] for a checker. If unknown keys are all that is wrong with the file, it
// returns the rest of the file beside the error, so that it can be checked, too.
func Inspect(path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	cfg, err := inspect(data)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return cfg, err
}

// Parse reads a configuration file. Absent keys have the values of [Default], but an absent
// key of [listen] means that the door is off. The error joins an [*Error] for every mistake,
// in the order of the lines.
func Parse(data []byte) (*Config, error) {
	cfg, err := inspect(data)
	if err != nil {
		return nil, err
	}
	return cfg, nil
}

// inspect is Parse that returns a configuration beside an error about unknown keys only.
func inspect(data []byte) (*Config, error) {
	if len(data) > maxFile {
		return nil, &Error{Detail: fmt.Sprintf("file is longer than %d bytes", maxFile)}
	}
	cfg := Default()
	cfg.Listen = Listen{}
	dec := toml.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err := dec.Decode(cfg)
	var missing *toml.StrictMissingError
	if err != nil && !errors.As(err, &missing) {
		return nil, positioned(err)
	}
	var unknown []*Error
	if missing != nil {
		for i := range missing.Errors {
			line, _ := missing.Errors[i].Position()
			key := missing.Errors[i].Key()
			unknown = append(unknown, &Error{Line: line, Key: strings.Join(key, "."), Detail: "unknown key" + meant(key)})
		}
		// The decoder has gone on after them: the rest of the file is in cfg.
	}
	wrong := cfg.validate(keyLines(data))
	all := slices.Concat(unknown, wrong)
	if len(all) == 0 {
		return cfg, nil
	}
	slices.SortStableFunc(all, func(a, b *Error) int { return a.Line - b.Line })
	errs := make([]error, len(all))
	for i, e := range all {
		errs[i] = e
	}
	if len(wrong) > 0 {
		cfg = nil
	}
	return cfg, errors.Join(errs...)
}

// positioned turns the errors of the TOML library into [*Error].
func positioned(err error) error {
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		line, _ := bad.Position()
		return &Error{Line: line, Key: strings.Join(bad.Key(), "."), Detail: strings.TrimPrefix(bad.Error(), "toml: ")}
	}
	return &Error{Detail: err.Error()}
}

// keyLines returns the line of every key and table of a document that the decoder has
// accepted, for errors about values that are well-formed TOML but out of range. Keys inside
// inline tables have the line of the table. The second [[ratelimit]] is ratelimit[1], and its
// keys are for example ratelimit[1].limit.
func keyLines(data []byte) map[string]int {
	lines := make(map[string]int)
	tables := make(map[string]int) // how many of each list have been seen
	var p unstable.Parser
	p.Reset(data)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		var path []string
		line := 0
		for it := e.Key(); it.Next(); {
			if line == 0 {
				line = p.Shape(it.Node().Raw).Start.Line
			}
			path = append(path, string(it.Node().Data))
		}
		key := strings.Join(path, ".")
		switch e.Kind {
		case unstable.Table:
			table = key + "."
			lines[key] = line
		case unstable.ArrayTable:
			if lines[key] == 0 {
				lines[key] = line
			}
			one := nth(key, tables[key])
			tables[key]++
			table = one + "."
			lines[one] = line
		case unstable.KeyValue:
			lines[table+key] = line
		}
	}
	return lines
}

// nth returns the name of table i, from 0, of a list of tables.
func nth(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }
