import { describe, expect, it } from 'vitest'
import { ReplayBuffer } from './replay-buffer.ts'

const ANSWER = Buffer.from('\u001b[?1;2c')
const TYPED = Buffer.from('ls\r')
const NOTHING = Buffer.alloc(0)

describe('what a terminal sends after it was attached again', () => {
  it('is dropped while old output is shown, whatever it is', () => {
    const gate = new ReplayBuffer(100, () => 0)
    gate.advance(99)
    expect(gate.admit(ANSWER)).toEqual(NOTHING)
    expect(gate.admit(TYPED)).toEqual(NOTHING)
  })

  it('is dropped right after it when it is an answer, and passed when it was typed', () => {
    let nowMs = 1_000
    const gate = new ReplayBuffer(100, () => nowMs)
    gate.advance(100)
    nowMs += 100
    expect(gate.admit(ANSWER)).toEqual(NOTHING)
    expect(gate.admit(TYPED)).toEqual(TYPED)
    expect(gate.admit(Buffer.concat([TYPED, ANSWER]))).toEqual(TYPED)
  })

  it('is passed from then on, answers to new questions too', () => {
    let nowMs = 1_000
    const gate = new ReplayBuffer(100, () => nowMs)
    gate.advance(60)
    gate.advance(60)
    nowMs += 501
    gate.advance(1_000)
    expect(gate.admit(ANSWER)).toEqual(ANSWER)
  })

  it('is passed at once where there is no old output', () => {
    const gate = new ReplayBuffer(0, () => 0)
    expect(gate.admit(ANSWER)).toEqual(ANSWER)
  })
})
