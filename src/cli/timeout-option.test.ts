import { describe, expect, it } from 'vitest'
import { API_LIMITS } from '../operator/api/api-constants.ts'
import { parseTimeout } from './timeout-option.ts'

describe('parseTimeout', () => {
  it('accepts what the API accepts, and refuses more at once', () => {
    expect(parseTimeout('7d')).toBe(API_LIMITS.timeoutMs)
    expect(() => parseTimeout('8d')).toThrow('--timeout is longer than a week')
  })
})
