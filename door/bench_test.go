package door

import (
	"context"
	"net"
	"testing"
	"time"

	"golang.org/x/net/ipv4"
)

// BenchmarkPackets measures request and answer over loopback, with 64 requests
// in flight from each of four sockets. The generator shares the machine.
func BenchmarkPackets(b *testing.B) {
	for _, bench := range []struct {
		name    string
		address string
		detach  bool
	}{
		{"bound", "127.0.0.1:0", false},
		{"wildcard", "0.0.0.0:0", false},
		{"detached", "127.0.0.1:0", true},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := &PacketServer{}
			s.Handler = s.Each(func(ctx context.Context, p *Packet) {
				p.Reply = append(p.Reply, p.Data...)
				if bench.detach && p.Detach() {
					go p.Finish()
				}
			})
			conns, err := ListenPackets(b.Context(), bench.address, 0)
			if err != nil {
				b.Fatal(err)
			}
			done := make(chan error, len(conns))
			for _, c := range conns {
				go func() { done <- s.ServePacket(c) }()
			}
			const clients = 4
			port := conns[0].LocalAddr().(*net.UDPAddr).Port
			errs := make(chan error, clients)
			b.ReportAllocs()
			b.ResetTimer()
			for range clients {
				go func() { errs <- flood(port, b.N/clients+1) }()
			}
			for range clients {
				if err := <-errs; err != nil {
					b.Error(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "packets/s")
			if err := s.Shutdown(b.Context()); err != nil {
				b.Error(err)
			}
			for range conns {
				<-done
			}
		})
	}
}

// flood sends n requests, 64 in flight, and waits for their answers.
func flood(port, n int) error {
	c, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	pc := ipv4.NewPacketConn(c)
	const flight = 64
	out, in := make([]ipv4.Message, flight), make([]ipv4.Message, flight)
	for i := range flight {
		out[i].Buffers = [][]byte{make([]byte, 160)}
		in[i].Buffers = [][]byte{make([]byte, 200)}
	}
	for sent := 0; sent < n; sent += flight {
		for done := 0; done < flight; {
			k, err := pc.WriteBatch(out[done:], 0)
			if err != nil {
				return err
			}
			done += k
		}
		for got := 0; got < flight; {
			k, err := pc.ReadBatch(in[:flight-got], 0)
			if err != nil {
				return err
			}
			got += k
		}
	}
	return nil
}
