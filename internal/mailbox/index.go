package mailbox

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// IndexName is the file that makes a folder a labelled collection: a table with tabs between its
// columns and a first line that names them. It must have the column "file"; "label" (ham or spam)
// and "time" (RFC 3339) are read if present, and other columns are passed on.
const IndexName = "index.tsv"

// maxRow is the longest line of an index, in bytes.
const maxRow = 64 << 10

func (r *reader) index(dir string) bool {
	path := filepath.Join(dir, IndexName)
	f, err := os.Open(path)
	if err != nil {
		return r.fail("%w", err)
	}
	defer f.Close()
	scan := bufio.NewScanner(f)
	scan.Buffer(make([]byte, 4096), maxRow)
	if !scan.Scan() {
		return r.fail("%s: line 1: no column names", path)
	}
	column := map[string]int{}
	for i, name := range strings.Split(strings.TrimSuffix(scan.Text(), "\r"), "\t") {
		column[name] = i
	}
	if _, ok := column["file"]; !ok {
		return r.fail("%s: line 1: no column called file", path)
	}
	line := 1
	for scan.Scan() {
		line++
		text := strings.TrimSuffix(scan.Text(), "\r")
		if text == "" {
			continue
		}
		cells := strings.Split(text, "\t")
		row := make(map[string]string, len(column))
		for name, i := range column {
			if i < len(cells) {
				row[name] = cells[i]
			}
		}
		name, label := row["file"], row["label"]
		var at time.Time
		if text := row["time"]; text != "" {
			if at, err = time.Parse(time.RFC3339, text); err != nil {
				if !r.fail("%s: line %d: time %.40q is not RFC 3339", path, line, text) {
					return false
				}
				continue
			}
		}
		switch {
		case !filepath.IsLocal(name):
			if !r.fail("%s: line %d: file %.80q is not in the folder", path, line, name) {
				return false
			}
			continue
		case label == "":
			label = r.opts.Label
		case label != Ham && label != Spam:
			if !r.fail("%s: line %d: label %.20q, want ham or spam", path, line, label) {
				return false
			}
			continue
		}
		r.row = row
		if !r.file(filepath.Join(dir, name), at, label, true) {
			return false
		}
	}
	if err := scan.Err(); err != nil {
		return r.fail("%s: line %d: %w", path, line+1, err)
	}
	return true
}
