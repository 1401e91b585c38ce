import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Acknowledgements } from './acknowledgements.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function scene() {
  const sent: number[] = []
  const answers: PromiseWithResolvers<void>[] = []
  const acknowledgements = new Acknowledgements({
    fromBytes: 100,
    stepBytes: 1000,
    send(position) {
      sent.push(position)
      answers.push(Promise.withResolvers())
      return answers.at(-1)!.promise
    },
  })
  return { acknowledgements, sent, answers }
}

describe('acknowledgements of a log', () => {
  it('are sent after each step, one at a time, always for the newest position', async () => {
    const { acknowledgements, sent, answers } = scene()
    acknowledgements.acknowledge(1000)
    acknowledgements.acknowledge(2000)
    acknowledgements.acknowledge(3500)
    expect(sent).toEqual([1000])
    answers[0]!.resolve()
    await vi.advanceTimersByTimeAsync(0)
    expect(sent).toEqual([1000, 3500])
    acknowledgements.close()
  })

  it('are sent after a delay for less than a step, and not when nothing would be dropped', async () => {
    const { acknowledgements, sent } = scene()
    acknowledgements.acknowledge(99)
    await vi.advanceTimersByTimeAsync(1000)
    expect(sent).toEqual([])
    acknowledgements.acknowledge(100)
    await vi.advanceTimersByTimeAsync(199)
    acknowledgements.acknowledge(150)
    await vi.advanceTimersByTimeAsync(1)
    expect(sent).toEqual([150])
    acknowledgements.close()
  })

  it('are sent again after one was lost', async () => {
    const { acknowledgements, sent, answers } = scene()
    acknowledgements.acknowledge(1000)
    answers[0]!.reject(new Error('lost'))
    await vi.advanceTimersByTimeAsync(0)
    acknowledgements.repeat()
    expect(sent).toEqual([1000, 1000])
    acknowledgements.close()
  })

  it('are sent at the end, without waiting for a response that does not arrive', async () => {
    const { acknowledgements, sent, answers } = scene()
    acknowledgements.acknowledge(1000)
    acknowledgements.acknowledge(1001)
    const ended = acknowledgements.end()
    answers[0]!.resolve()
    await vi.advanceTimersByTimeAsync(0)
    expect(sent).toEqual([1000, 1001])
    await vi.advanceTimersByTimeAsync(2000)
    await ended
    acknowledgements.close()
    await acknowledgements.end()
    acknowledgements.acknowledge(9000)
    expect(sent).toHaveLength(2)
  })
})
