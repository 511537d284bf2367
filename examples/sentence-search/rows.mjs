// What the encoder does before and after the network: the signal of positions, and the last activation.

/**
 * Element i, which is known to exist.
 * @param {Float32Array} x
 * @param {number} i
 */
export const at = (x, i) => /** @type {number} */ (x[i]);

/**
 * Row p is [sin(p f) | cos(p f)] over the angular frequencies f. The angle is rounded to float32, as it is in the
 * original: that moves an angle of 100 by up to 4e-6.
 * @param {Float32Array} frequencies
 * @param {number} positions
 */
export function positionSignal(frequencies, positions) {
  const half = frequencies.length;
  const signal = new Float32Array(positions * 2 * half);
  for (let p = 0; p < positions; p++) {
    frequencies.forEach((frequency, j) => {
      const angle = Math.fround(p * frequency);
      signal[2 * half * p + j] = Math.sin(angle);
      signal[2 * half * p + half + j] = Math.cos(angle);
    });
  }
  return signal;
}

/**
 * tanh(x), which is 1 - 2 / (exp(2 x) + 1), scaled so that the squares sum to 1.
 * @param {Float32Array} x
 */
export function unitTanh(x) {
  const out = new Float32Array(x.length);
  let squares = 0;
  for (let i = 0; i < x.length; i++) {
    const y = 1 - 2 / (Math.exp(2 * at(x, i)) + 1);
    out[i] = y;
    squares += y * y;
  }
  const factor = 1 / Math.sqrt(Math.max(squares, 1e-12));
  for (let i = 0; i < out.length; i++) out[i] = factor * at(out, i);
  return out;
}
