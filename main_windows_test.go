package main

import "syscall"

const restartSignal = syscall.Signal(-1) // there is none
