import { describe, expect, it } from 'vitest'
import { ReplayBuffer } from './replay-buffer.ts'

const ANSWER = Buffer.from('\u001b[?1;2c')
const TYPED = Buffer.from('ls\r')
const NOTHING = Buffer.alloc(0)

describe('input from a terminal after it was attached again', () => {
  it('is dropped while old output is printed, whatever it is', () => {
    const gate = new ReplayBuffer(100, () => 0)
    gate.advance(99)
    expect(gate.admit(ANSWER)).toEqual(NOTHING)
    expect(gate.admit(TYPED)).toEqual(NOTHING)
  })

  it('is dropped right after that if it is an answer, and forwarded if the user typed it', () => {
    let nowMs = 1_000
    const gate = new ReplayBuffer(100, () => nowMs)
    gate.advance(100)
    nowMs += 100
    expect(gate.admit(ANSWER)).toEqual(NOTHING)
    expect(gate.admit(TYPED)).toEqual(TYPED)
    expect(gate.admit(Buffer.concat([TYPED, ANSWER]))).toEqual(TYPED)
  })

  it('is forwarded from then on, including answers to new questions', () => {
    let nowMs = 1_000
    const gate = new ReplayBuffer(100, () => nowMs)
    gate.advance(60)
    gate.advance(60)
    nowMs += 501
    gate.advance(1_000)
    expect(gate.admit(ANSWER)).toEqual(ANSWER)
  })

  it('is forwarded at once if there is no old output', () => {
    const gate = new ReplayBuffer(0, () => 0)
    expect(gate.admit(ANSWER)).toEqual(ANSWER)
  })
})
