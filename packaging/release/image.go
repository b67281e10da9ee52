package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user owns the node's data in the container.
const user = 65532

// configuration is the path of the container's configuration in this repository.
const configuration = "packaging/container.toml"

// writeImage writes an image bulkhead:VERSION that holds a program, a
// configuration, the authorities that sign the certificates of web servers, and
// nothing else, as an archive for "podman load" and "docker load".
func writeImage(out io.Writer, program, version string, when time.Time) error {
	binary, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return fmt.Errorf("image: %s: %w", program, err)
	}
	config, err := os.ReadFile(configuration)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	layer, err := pack(when, []file{
		{"etc/bulkhead/bulkhead.toml", 0o644, config},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities()},
		{"usr/bin/bulkhead", 0o755, binary},
	})
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	image, err := assemble(layer, setting(info, "GOARCH"), when)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	tag, err := name.NewTag("bulkhead:" + version)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	return tarball.Write(tag, image, out)
}

func setting(info *buildinfo.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// assemble makes an image for Linux of one layer.
func assemble(files []byte, arch string, when time.Time) (v1.Image, error) {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files)), nil
	})
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: when}
	config.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", user, user),
		Healthcheck:  health(),
		Entrypoint:   []string{"/usr/bin/bulkhead"},
		Cmd:          []string{"serve", "--config", "/etc/bulkhead/bulkhead.toml", "--data", "/var/lib/bulkhead"},
		ExposedPorts: map[string]struct{}{"8420/tcp": {}},
		Volumes:      map[string]struct{}{"/var/lib/bulkhead": {}},
		StopSignal:   "SIGTERM",
		Labels: map[string]string{"org.opencontainers.image.source": "https://github.com/bulkhead-mail/bulkhead",
			"org.opencontainers.image.licenses": "MIT"},
	}
	return mutate.ConfigFile(image, config)
}

// health returns a check that asks the node, at its configured address, whether it accepts
// requests. After a crash the node may have to read its journal first.
func health() *v1.HealthConfig {
	return &v1.HealthConfig{
		Test:     []string{"CMD", "/usr/bin/bulkhead", "ready", "--config", "/etc/bulkhead/bulkhead.toml"},
		Interval: 10 * time.Second, Timeout: 5 * time.Second, StartPeriod: 5 * time.Minute, Retries: 3,
	}
}

// A file of the image.
type file struct {
	name string
	mode int64
	text []byte
}

// pack returns a tar of files and of the folder for the node's data.
func pack(when time.Time, files []file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h *tar.Header, text []byte) error {
		h.ModTime, h.Size, h.Format = when, int64(len(text)), tar.FormatUSTAR
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err := w.Write(text)
		return err
	}
	for _, dir := range []string{"etc/", "etc/bulkhead/", "etc/ssl/", "etc/ssl/certs/", "usr/", "usr/bin/", "var/",
		"var/lib/"} {
		if err := add(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, nil); err != nil {
			return nil, err
		}
	}
	for _, dir := range []tar.Header{{Name: "tmp/", Mode: 0o1777},
		{Name: "var/lib/bulkhead/", Mode: 0o700, Uid: user, Gid: user}} {
		dir.Typeflag = tar.TypeDir
		if err := add(&dir, nil); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		if err := add(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode}, f.text); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// authorities returns Mozilla's list, without the authorities that it trusts under conditions,
// because a file cannot express conditions.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return b.Bytes()
}
