//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
)

// holdStreams is the program as a holder: it opens the clients, says when all are
// connected and when all have been told of an event, and holds them until it is
// killed. It returns the exit status.
func holdStreams(args []string) int {
	out := os.NewFile(holdOutput, "lines")
	if len(args) != 2 || out == nil {
		fmt.Fprintln(os.Stderr, "bench: "+holdCommand+" is for the bench itself")
		return 2
	}
	clients, err := strconv.Atoi(args[1])
	if err == nil {
		err = hold(args[0], clients, out)
	}
	fmt.Fprintln(out, err)
	return 1
}

// hold returns when a client has ended, which none does by itself.
func hold(addr string, clients int, out io.Writer) error {
	// Without "close" the end of a stream would not be the end of its connection.
	request := fmt.Sprintf("GET /v1/stream?types=event.accepted HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n",
		addr, os.Getenv(holdKey))
	connected, told, failed := countdown(clients), countdown(clients), make(chan error, clients)
	go func() {
		connected.Wait()
		fmt.Fprintln(out, holderConnected)
		told.Wait()
		fmt.Fprintln(out, holderTold)
	}()
	dialing := make(chan struct{}, 64) // no more than a listener's queue takes
	for range clients {
		go func() {
			dialing <- struct{}{}
			conn, err := net.DialTimeout("tcp", addr, dialTimeout)
			if err == nil {
				_, err = conn.Write([]byte(request))
			}
			<-dialing
			if err == nil {
				err = follow(conn, connected, told)
			}
			failed <- err
		}()
	}
	return <-failed
}

func countdown(n int) *sync.WaitGroup {
	var wg sync.WaitGroup
	wg.Add(n)
	return &wg
}

// What a stream says, as the API has it: a comment once it is connected, and the
// name of an event.
var (
	connectedLine = []byte(": connected")
	acceptedLine  = []byte("event: event.accepted")
)

// follow reads one client's stream to its end, and returns why it has ended. The
// frames of chunks are lines among the others.
func follow(conn net.Conn, connected, told *sync.WaitGroup) error {
	defer conn.Close()
	lines := bufio.NewScanner(bufio.NewReaderSize(conn, 512))
	lines.Buffer(make([]byte, 512), maxAnswerBytes)
	status := ""
	for lines.Scan() {
		if status == "" {
			status = lines.Text()
		}
		switch line := lines.Bytes(); {
		case bytes.Equal(line, connectedLine):
			connected.Done()
		case bytes.Equal(line, acceptedLine):
			told.Done()
		}
	}
	return errors.Join(fmt.Errorf("a client's stream has ended: %s", status), lines.Err())
}
