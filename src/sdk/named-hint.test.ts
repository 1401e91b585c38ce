import { describe, expect, it } from 'vitest'
import { CraikError } from '../errors.ts'
import { addSandboxName } from './named-hint.ts'

const hintOf = (error: Error) => (error as CraikError).hint

describe('the hint of an error', () => {
  it('names the sandbox of the request', () => {
    const error = new CraikError('limit_reached', 'too many jobs')
    expect(hintOf(addSandboxName(error, '/api/sandboxes/parser/jobs/job_1'))).toBe(
      'show the usage:  craik sandbox stats parser',
    )
  })

  it.each([
    ['/api/sandboxes/parser/files/content?path=a', 'craik sandbox exec parser -- ls -la'],
    ['/api/sandboxes/parser/processes/99999/signal', 'craik sandbox ps parser'],
    ['/api/sandboxes/parser/jobs/job_1', 'craik sandbox logs parser'],
  ])('shows where to search for what was not found: %s', (path, command) => {
    expect(hintOf(addSandboxName(new CraikError('not_found', 'nothing there'), path))).toContain(command)
  })

  it('stays when it is a specific one, or when the request was not about a sandbox', () => {
    const own = new CraikError('not_found', 'unknown sandbox', { hint: 'see them:  craik sandbox list' })
    expect(addSandboxName(own, '/api/sandboxes/parser/files/stat')).toBe(own)
    const general = new CraikError('sandbox_stopped', 'stopped')
    expect(addSandboxName(general, '/api/supervisor')).toBe(general)
  })
})
