//go:build interop

package packages

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

// An image is what "podman load" reads.
type image struct {
	files  map[string][]byte // of the archive
	layers []string
	config struct {
		Config struct {
			User        string
			Entrypoint  []string
			Cmd         []string
			Env         []string
			Healthcheck struct{ Test []string }
		} `json:"config"`
	}
}

func readImage(t *testing.T, file string) *image {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	i := &image{files: make(map[string][]byte)}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			i.files[h.Name], err = io.ReadAll(r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var manifest []struct {
		Config string
		Layers []string
	}
	if err := json.Unmarshal(i.files["manifest.json"], &manifest); err != nil || len(manifest) != 1 {
		t.Fatalf("manifest %s: %v", i.files["manifest.json"], err)
	}
	i.layers = manifest[0].Layers
	if err := json.Unmarshal(i.files[manifest[0].Config], &i.config); err != nil {
		t.Fatal(err)
	}
	return i
}

// unpack writes the layers of an image below a folder.
func (i *image) unpack(t *testing.T, root string) {
	t.Helper()
	for _, name := range i.layers {
		var r io.Reader = bytes.NewReader(i.files[name])
		if z, err := gzip.NewReader(bytes.NewReader(i.files[name])); err == nil {
			r = z
		}
		for layer := tar.NewReader(r); ; {
			h, err := layer.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			at := filepath.Join(root, path.Clean("/"+h.Name))
			switch h.Typeflag {
			case tar.TypeDir:
				err = os.MkdirAll(at, 0o755)
			case tar.TypeReg:
				var data []byte
				if data, err = io.ReadAll(layer); err == nil {
					err = errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, data, 0o600))
				}
			case tar.TypeSymlink:
				err = os.Symlink(h.Linkname, at)
			}
			if err == nil && h.Typeflag != tar.TypeSymlink {
				err = errors.Join(os.Chmod(at, h.FileInfo().Mode().Perm()), os.Chown(at, h.Uid, h.Gid))
			}
			if err != nil {
				t.Fatalf("%s: %v", h.Name, err)
			}
		}
	}
}

// TestImage unpacks the container image and runs it in a chroot, as its user: it starts, its
// health check says so, and it has certificate authorities.
func TestImage(t *testing.T) {
	i := readImage(t, dist(t, "bulkhead_*_container_"+runtime.GOARCH+".tar"))
	root, err := os.MkdirTemp("", "bulkhead-image-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	i.unpack(t, root)
	roots, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil || bytes.Count(roots, []byte("BEGIN CERTIFICATE")) < 50 {
		t.Errorf("%d certificate authorities, %v", bytes.Count(roots, []byte("BEGIN CERTIFICATE")), err)
	}
	c := &i.config.Config
	if user, _, _ := strings.Cut(c.User, ":"); user == "" || user == "0" || user == "root" {
		t.Errorf("runs as %q", c.User)
	}
	inside := func(args ...string) *exec.Cmd {
		cmd := exec.Command("chroot", append([]string{"--userspec=" + c.User, root}, args...)...)
		cmd.Env = c.Env
		return cmd
	}
	var log bytes.Buffer
	node := inside(append(append([]string{}, c.Entrypoint...), c.Cmd...)...)
	node.Stdout, node.Stderr = &log, &log
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	check := c.Healthcheck.Test
	if len(check) < 2 || check[0] != "CMD" {
		t.Fatalf("health check %q", check)
	}
	healthy := await.Within(2*time.Minute, func() bool { return inside(check[1:]...).Run() == nil })
	stopped := errors.Join(node.Process.Signal(os.Interrupt), node.Wait())
	if !healthy || stopped != nil {
		t.Errorf("healthy %v, %v:\n%s", healthy, stopped, log.String())
	}
	if err := inside(check[1:]...).Run(); err == nil {
		t.Error("the health check of a stopped node succeeds")
	}
}
