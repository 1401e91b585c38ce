import { describe, expect, it } from 'vitest'
import { CraikError } from '../../errors.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'
import { passInterrupts } from './pass-interrupts.ts'

describe('passInterrupts', () => {
  it('refuses to begin after Ctrl-C, because the job would never get it', () => {
    const stop = new AbortController()
    const context = { signal: stop.signal, kill: new AbortController().signal } as unknown as CliContext
    stop.abort(new CraikError('interrupted', 'interrupted'))
    expect(() => passInterrupts(context, {} as ApiClient, 'box', 'job_x', new AbortController())).toThrow(
      'interrupted',
    )
  })
})
