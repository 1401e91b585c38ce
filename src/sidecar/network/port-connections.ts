/** How many connections are open through the boundary, both ways; there is a most. */
import { SidecarError } from '../router.ts'

const MOST = 1024

export class PortConnections {
  #open = 0

  get open(): number {
    return this.#open
  }

  /** Returns what has to be called, once, when it is closed. */
  enter(): () => void {
    if (this.#open >= MOST) throw new SidecarError('busy', `${MOST} connections are already open`)
    this.#open++
    let left = false
    return () => {
      if (left) return
      left = true
      this.#open--
    }
  }
}
