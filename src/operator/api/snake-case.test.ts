import { describe, expect, it } from 'vitest'
import { type SnakeCase, snakeCase } from './snake-case.ts'

describe('snakeCase', () => {
  it('renames the fields of nested records', () => {
    const value = { startedAtMs: 1, ends: { idleMs: null }, jobs: [{ exitCode: 0, argv: ['aB'] }] }
    expect(snakeCase(value)).toEqual({
      started_at_ms: 1,
      ends: { idle_ms: null },
      jobs: [{ exit_code: 0, argv: ['aB'] }],
    })
  })

  it('has no type for a record whose keys are data', () => {
    // @ts-expect-error A response with such a record does not compile, because its keys would be renamed.
    const response: SnakeCase<{ env: Record<string, string> }> = { env: { PATH: '/bin' } }
    expect(response).toBeDefined()
  })
})
