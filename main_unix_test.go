//go:build unix

package main

import "syscall"

const restartSignal = syscall.SIGUSR2
