/** Homes that are created once and copied for each test. */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { homeAt } from '../../src/store/home.ts'
import { TestHome } from '../craik.ts'

export function copyOf(template: TestHome): TestHome {
  const home = new TestHome()
  copyHome(template, home)
  return home
}

/** Keeps all file modes. */
export function copyHome(from: TestHome, to: TestHome): void {
  execFileSync('cp', ['-a', from.home, to.home])
}

export function keyOf(home: TestHome): string {
  return join(homeAt(home.home).secrets, 'log.key')
}
